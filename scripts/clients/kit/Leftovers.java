package org.apache.iceberg.rest;

import java.util.Set;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * Removes what a test leaves in the catalog, and nothing that was there before. The kit removes some of it only before its next
 * test, and fails at once in a catalog with such names.
 */
public final class Leftovers implements BeforeAllCallback, AfterEachCallback, AfterAllCallback {
  private RESTCatalog catalog;
  private Set<Namespace> before;

  @Override
  public void beforeAll(ExtensionContext context) {
    catalog = RCKUtils.initCatalogClient();
    before = Set.copyOf(catalog.listNamespaces());
  }

  @Override
  public void afterEach(ExtensionContext context) {
    for (Namespace namespace : catalog.listNamespaces()) {
      if (!before.contains(namespace)) {
        try {
          remove(namespace);
        } catch (RuntimeException problem) {
          System.err.println("not removed after " + context.getDisplayName() + ": " + namespace + ": " + problem);
        }
      }
    }
  }

  @Override
  public void afterAll(ExtensionContext context) throws Exception {
    catalog.close();
  }

  private void remove(Namespace namespace) {
    for (Namespace child : catalog.listNamespaces(namespace)) {
      remove(child);
    }
    for (TableIdentifier table : catalog.listTables(namespace)) {
      catalog.dropTable(table, false);
    }
    for (TableIdentifier view : catalog.listViews(namespace)) {
      catalog.dropView(view);
    }
    catalog.dropNamespace(namespace);
  }
}
