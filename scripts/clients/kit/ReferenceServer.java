package org.apache.iceberg.rest;

import java.net.InetSocketAddress;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.catalog.Catalog;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;

/**
 * Iceberg's reference server on SQLite, on 127.0.0.1 only; its own main class listens on all addresses. Arguments: a port, and
 * a folder for everything that it writes.
 */
public final class ReferenceServer {
  private ReferenceServer() {}

  public static void main(String[] arguments) throws Exception {
    int port = Integer.parseInt(arguments[0]);
    String folder = arguments[1];
    Map<String, String> properties =
        Map.of(
            "catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri", "jdbc:sqlite:file:" + folder + "/catalog.db",
            "jdbc.schema-version", "V1",
            "jdbc.strict-mode", "true",
            "warehouse", "file://" + folder + "/warehouse");
    Catalog catalog = CatalogUtil.buildIcebergCatalog("reference", properties, new Configuration());
    RESTCatalogAdapter adapter =
        new RESTServerCatalogAdapter(new RESTCatalogServer.CatalogContext(catalog, properties));
    ServletContextHandler context = new ServletContextHandler(ServletContextHandler.NO_SESSIONS);
    context.addServlet(new ServletHolder(new RESTCatalogServlet(adapter)), "/*");
    Server server = new Server(new InetSocketAddress("127.0.0.1", port));
    server.setHandler(context);
    server.start();
    server.join();
  }
}
