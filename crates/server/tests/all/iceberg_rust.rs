//! iceberg-rust as a client: its catalog for REST, and its transactions.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use iceberg::io::LocalFsStorageFactory;
use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, DataFileFormat, NestedField, PrimitiveType, Schema, Struct, Type,
};
use iceberg::table::Table;
use iceberg::transaction::{ApplyTransactionAction as _, Transaction};
use iceberg::{Catalog, CatalogBuilder as _, ErrorKind, NamespaceIdent, TableCreation, TableIdent};
use iceberg_catalog_rest::{REST_CATALOG_PROP_URI, RestCatalog, RestCatalogBuilder};

use crate::support::{Running, local, start};

/// Tasks that append to one table, and how often each does.
const TASKS: usize = 4;
const APPENDS: usize = 6;

async fn served() -> (Running, RestCatalog) {
    let (folder, config) = local();
    let server = start(folder, config).await;
    let catalog = connect(&server).await;
    (server, catalog)
}

async fn connect(server: &Running) -> RestCatalog {
    let builder = RestCatalogBuilder::default().with_storage_factory(Arc::new(LocalFsStorageFactory));
    let properties = HashMap::from([(REST_CATALOG_PROP_URI.to_owned(), server.base.clone())]);
    builder.load("server", properties).await.unwrap()
}

fn namespace(parts: &[&str]) -> NamespaceIdent {
    NamespaceIdent::from_strs(parts).unwrap()
}

fn table(parts: &[&str], name: &str) -> TableIdent {
    TableIdent::new(namespace(parts), name.to_owned())
}

fn creation(name: &str, properties: &[(&str, &str)]) -> TableCreation {
    let field = NestedField::optional(1, "id", Type::Primitive(PrimitiveType::Long));
    let schema = Schema::builder().with_fields([field.into()]).build().unwrap();
    let properties: HashMap<_, _> =
        properties.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    TableCreation::builder().name(name.to_owned()).schema(schema).properties(properties).build()
}

fn data_file(location: &str, name: &str) -> DataFile {
    let mut file = DataFileBuilder::default();
    file.content(DataContentType::Data).file_path(format!("{location}/data/{name}.parquet"));
    file.file_format(DataFileFormat::Parquet).partition(Struct::empty()).partition_spec_id(0);
    file.record_count(1).file_size_in_bytes(100).build().unwrap()
}

/// Appends a file; a conflict is tried again as often as the table says.
async fn append(catalog: &RestCatalog, to: &TableIdent, name: &str) -> iceberg::Result<Table> {
    let loaded = catalog.load_table(to).await?;
    let file = data_file(loaded.metadata().location(), name);
    let transaction = Transaction::new(&loaded);
    let action = transaction.fast_append().with_check_duplicate(false).add_data_files([file]);
    action.apply(transaction)?.commit(catalog).await
}

/// How often each data file is in the table.
async fn files_of(loaded: &Table) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    let Some(snapshot) = loaded.metadata().current_snapshot() else { return found };
    let list = loaded.manifest_list_reader(snapshot).load().await.unwrap();
    for manifest in list.entries() {
        for entry in manifest.load_manifest(loaded.file_io()).await.unwrap().entries() {
            assert!(entry.is_alive());
            let name = entry.file_path().rsplit('/').next().unwrap().trim_end_matches(".parquet");
            *found.entry(name.to_owned()).or_default() += 1;
        }
    }
    found
}

#[tokio::test]
async fn names_come_and_go() {
    let (_server, catalog) = served().await;
    let properties = HashMap::from([("owner".to_owned(), "us".to_owned())]);
    catalog.create_namespace(&namespace(&["a"]), properties).await.unwrap();
    catalog.create_namespace(&namespace(&["a", "b"]), HashMap::new()).await.unwrap();
    let twice = catalog.create_namespace(&namespace(&["a"]), HashMap::new()).await.unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::NamespaceAlreadyExists, "{twice}");
    assert_eq!(catalog.list_namespaces(None).await.unwrap(), [namespace(&["a"])]);
    assert_eq!(catalog.list_namespaces(Some(&namespace(&["a"]))).await.unwrap(), [namespace(&["a", "b"])]);
    assert_eq!(catalog.get_namespace(&namespace(&["a"])).await.unwrap().properties()["owner"], "us");
    assert!(!catalog.namespace_exists(&namespace(&["none"])).await.unwrap());

    let (one, two) = (table(&["a", "b"], "one"), table(&["a"], "two"));
    let made = catalog.create_table(&namespace(&["a", "b"]), creation("one", &[("k", "v")])).await.unwrap();
    assert_eq!(made.metadata().properties()["k"], "v");
    let taken = catalog.create_table(&namespace(&["a", "b"]), creation("one", &[])).await.unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::TableAlreadyExists, "{taken}");
    assert!(catalog.table_exists(&one).await.unwrap());
    assert_eq!(catalog.list_tables(&namespace(&["a", "b"])).await.unwrap(), std::slice::from_ref(&one));
    append(&catalog, &one, "f").await.unwrap();

    catalog.rename_table(&one, &two).await.unwrap();
    let missing = catalog.load_table(&one).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::TableNotFound, "{missing}");
    let moved = catalog.load_table(&two).await.unwrap();
    assert_eq!(moved.metadata().uuid(), made.metadata().uuid());
    assert_eq!(files_of(&moved).await, BTreeMap::from([("f".to_owned(), 1)]));

    let full = catalog.drop_namespace(&namespace(&["a"])).await;
    assert!(full.is_err(), "a namespace that is not empty was dropped");
    catalog.drop_table(&two).await.unwrap();
    assert!(!catalog.table_exists(&two).await.unwrap());
    let again = catalog.register_table(&two, moved.metadata_location().unwrap().to_owned()).await.unwrap();
    assert_eq!(files_of(&again).await, BTreeMap::from([("f".to_owned(), 1)]));
    catalog.drop_table(&two).await.unwrap();
    for parts in [&["a", "b"][..], &["a"]] {
        catalog.drop_namespace(&namespace(parts)).await.unwrap();
    }
    assert_eq!(catalog.list_namespaces(None).await.unwrap(), []);
}

#[tokio::test]
async fn transactions_change_properties_and_the_schema() {
    let (_server, catalog) = served().await;
    catalog.create_namespace(&namespace(&["a"]), HashMap::new()).await.unwrap();
    let made = catalog.create_table(&namespace(&["a"]), creation("t", &[("old", "1")])).await.unwrap();
    let transaction = Transaction::new(&made);
    let action = transaction.update_table_properties().set("new".to_owned(), "2".to_owned()).remove("old".to_owned());
    let changed = action.apply(transaction).unwrap().commit(&catalog).await.unwrap();
    assert_eq!(changed.metadata().properties().get("new").map(String::as_str), Some("2"));
    assert!(!changed.metadata().properties().contains_key("old"));
    // The commit of what was loaded before the last one is prepared again by the client.
    let transaction = Transaction::new(&made);
    let action = transaction.fast_append().add_data_files([data_file(made.metadata().location(), "late")]);
    let appended = action.apply(transaction).unwrap().commit(&catalog).await.unwrap();
    assert_eq!(files_of(&appended).await, BTreeMap::from([("late".to_owned(), 1)]));
}

/// What was acknowledged to concurrent clients is in the table exactly once.
async fn appends_of_many(properties: &[(&str, &str)]) {
    let (server, catalog) = served().await;
    catalog.create_namespace(&namespace(&["a"]), HashMap::new()).await.unwrap();
    let retries =
        [("commit.retry.num-retries", "200"), ("commit.retry.min-wait-ms", "1"), ("commit.retry.max-wait-ms", "20")];
    let all = [&retries[..], properties].concat();
    catalog.create_table(&namespace(&["a"]), creation("hot", &all)).await.unwrap();
    let hot = table(&["a"], "hot");
    append(&catalog, &hot, "first").await.unwrap();
    let mut clients = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        let (catalog, hot) = (connect(&server).await, hot.clone());
        clients.spawn(async move {
            let mut acknowledged = Vec::new();
            for turn in 0..APPENDS {
                let name = format!("{task}-{turn}");
                let after = append(&catalog, &hot, &name).await.unwrap();
                assert!(files_of(&after).await.contains_key(&name));
                acknowledged.push(name);
            }
            acknowledged
        });
    }
    let mut expected = BTreeMap::from([("first".to_owned(), 1)]);
    while let Some(acknowledged) = clients.join_next().await {
        expected.extend(acknowledged.unwrap().into_iter().map(|name| (name, 1)));
    }
    let end = catalog.load_table(&hot).await.unwrap();
    assert_eq!(expected.len(), TASKS * APPENDS + 1);
    assert_eq!(files_of(&end).await, expected);
    assert_eq!(end.metadata().snapshots().len(), expected.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_appends_are_there_once() {
    appends_of_many(&[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_appends_that_are_rebased_are_there_once() {
    appends_of_many(&[("glidepath.append-rebase", "true")]).await;
}
