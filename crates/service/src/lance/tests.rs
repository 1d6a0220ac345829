//! Lance tables on a catalog and a warehouse in memory.

use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fnv::FnvHasher;
use glidepath_env::{Cause, Env, Purpose};
use glidepath_model::{Instant, Span};
use glidepath_protocols::Outcome;
use glidepath_protocols::group::{Committer, Loads, RetryPolicy};
use glidepath_protocols::registry::{AnyCatalog, Creation, Protocol};
use glidepath_stores::Store;
use glidepath_stores::memory::MemoryStore;
use glidepath_table::FileError;

use super::*;
use crate::{Namespace, Registration, Settings, Warehouse};

/// The time of day when a world begins.
const BEGIN_MS: u64 = 1_800_000_000_000;

/// A clock that stands still while somebody works, goes on to the next moment that somebody waits for when all wait,
/// and can be moved on: tests run with paused timers. Draws are the same in each run.
#[derive(Clone)]
pub(crate) struct Clock {
    begin: tokio::time::Instant,
    passed_ms: Arc<AtomicU64>,
    draws: Arc<AtomicU64>,
}

impl Clock {
    fn new() -> Self {
        Self { begin: tokio::time::Instant::now(), passed_ms: Arc::default(), draws: Arc::default() }
    }
}

impl Env for Clock {
    type Objects = Store;

    fn now(&self) -> Instant {
        Instant::ZERO + Span::from_nanos(self.begin.elapsed().as_nanos() as u64)
    }

    fn unix_ms(&self) -> u64 {
        BEGIN_MS + self.begin.elapsed().as_millis() as u64 + self.passed_ms.load(Ordering::Relaxed)
    }

    async fn sleep_until(&self, at: Instant) {
        tokio::time::sleep_until(self.begin + Duration::from_nanos(at.since(Instant::ZERO).as_nanos())).await;
    }

    fn draw(&self, purpose: Purpose) -> u64 {
        let draw = self.draws.fetch_add(1, Ordering::Relaxed);
        let mut hasher = FnvHasher::default();
        hasher.write_u64(purpose as u64);
        hasher.write_u64(draw);
        hasher.finish()
    }
}

pub(crate) type Tested = Service<Clock, AnyCatalog<Clock>, Warehouse<MemoryStore>>;

pub(crate) struct World {
    clock: Clock,
    store: Store,
    pub(crate) files: MemoryStore,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::of(Protocol::ManifestChain).await
    }

    pub(crate) async fn of(protocol: Protocol) -> Self {
        let (clock, store) = (Clock::new(), Store::Memory(MemoryStore::new()));
        let created = AnyCatalog::create(clock.clone(), store.clone(), "", protocol, Creation::default()).await;
        assert!(matches!(created.1, Outcome::Committed(_)));
        let world = Self { clock, store, files: MemoryStore::new() };
        world.server().await.prepare().await.unwrap();
        world
    }

    /// Lets this many milliseconds pass.
    pub(crate) fn pass(&self, ms: u64) {
        self.clock.passed_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// One of the servers of the catalog.
    pub(crate) async fn server(&self) -> Tested {
        self.server_on(Warehouse::new(self.files.clone(), "s3://b/lake")).await
    }

    /// One that reads and writes files so.
    pub(crate) async fn server_on<F: Files>(&self, files: F) -> Service<Clock, AnyCatalog<Clock>, F> {
        self.server_of(files, Settings::of("s3://b/lake")).await
    }

    pub(crate) async fn server_of<F: Files>(
        &self,
        files: F,
        settings: Settings,
    ) -> Service<Clock, AnyCatalog<Clock>, F> {
        let catalog = AnyCatalog::find(self.clock.clone(), self.store.clone(), "").await.unwrap();
        let committer = Committer::alone(self.clock.clone(), catalog, RetryPolicy::default());
        Service::new(self.clock.clone(), committer, Loads::new(), files, settings)
    }
}

fn named(parts: &[&str]) -> Identifier {
    let (name, namespace) = parts.split_last().unwrap();
    Identifier { namespace: namespace.iter().map(|part| (*part).to_owned()).collect(), name: (*name).to_owned() }
}

fn new(table: &Identifier) -> NewLanceTable {
    NewLanceTable { identifier: table.clone(), location: None, properties: BTreeMap::new() }
}

fn managed(table: &Identifier) -> NewLanceTable {
    let properties = BTreeMap::from([(MANAGED_VERSIONING.to_owned(), "true".to_owned())]);
    NewLanceTable { properties, ..new(table) }
}

async fn put(server: &Tested, location: &str, content: &str) {
    server.inner.files.write(location, Bytes::copy_from_slice(content.as_bytes())).await.unwrap();
}

async fn there(server: &Tested, folder: &str) -> usize {
    server.inner.files.list(folder, None, 1000).await.unwrap().len()
}

/// Stages a manifest as a client does.
async fn staged(server: &Tested, location: &str, version: u64, name: &str) -> NewLanceVersion {
    let place = format!("{}-{name}", paths::manifest(location, version));
    put(server, &place, name).await;
    NewLanceVersion { version, staged: paths::in_store(&place).to_owned(), bytes: Some(name.len() as u64) }
}

pub(crate) fn kind<T>(answer: Result<T, ServiceError>) -> Kind {
    answer.err().map(|error| error.kind).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_table_lives_and_is_purged() {
    let world = World::new().await;
    let server = world.server().await;
    let (table, other) = (named(&["a", "t"]), named(&["a", "u"]));
    assert_eq!(kind(server.declare_lance(new(&table)).await), Kind::NoNamespace);
    let space = Namespace { parts: vec!["a".to_owned()], properties: BTreeMap::new() };
    server.create_namespace(&space, None).await.unwrap();

    let declared = server.declare_lance(new(&table)).await.unwrap();
    assert!(declared.location.starts_with("s3://b/lake/a/t-") && !declared.is_managed());
    assert_eq!(kind(server.declare_lance(new(&table)).await), Kind::Exists);
    assert_eq!(server.describe_lance(&table).await.unwrap(), declared);
    assert!(!server.is_lance_written(&declared).await.unwrap());
    for (file, content) in [("_versions/1.manifest", "m"), ("data/x.lance", "d"), ("unknown", "u")] {
        put(&server, &format!("{}/{file}", declared.location), content).await;
    }
    assert!(server.is_lance_written(&declared).await.unwrap());

    // Neither protocol shows the tables of the other.
    let all = Page::default();
    assert_eq!(server.list_lance(&space.parts, &all).await.unwrap().0, std::slice::from_ref(&table));
    assert!(server.list_tables(&space.parts, &all).await.unwrap().0.is_empty());
    assert_eq!(kind(server.load_table(&table).await), Kind::NoTable);
    assert_eq!(kind(server.drop_namespace(&space.parts, None).await), Kind::NotEmpty);
    assert_eq!(kind(server.list_lance_versions(&table, &VersionPage::default()).await), Kind::Unsupported);

    server.rename_lance(&table, &other).await.unwrap();
    assert_eq!(kind(server.rename_lance(&table, &other).await), Kind::NoTable);
    assert_eq!(kind(server.rename_lance(&other, &named(&["no", "t"])).await), Kind::NoNamespace);
    assert_eq!(server.deregister_lance(&other).await.unwrap().location, declared.location);
    let registered = NewLanceTable { location: Some(declared.location.clone()), ..new(&table) };
    server.register_lance(registered.clone()).await.unwrap();
    let nothing = NewLanceTable { location: Some("a/nothing".to_owned()), ..new(&other) };
    assert_eq!(kind(server.register_lance(nothing).await), Kind::Invalid);

    server.drop_lance(&table).await.unwrap();
    assert_eq!(kind(server.drop_lance(&table).await), Kind::NoTable);
    assert_eq!(kind(server.register_lance(registered).await), Kind::Unavailable);
    let inside = NewLanceTable { location: Some(format!("{}/inside", declared.location)), ..new(&table) };
    assert_eq!(kind(server.declare_lance(inside).await), Kind::Invalid);
    assert_eq!(server.run_purges().await.ended, 0);
    assert_eq!(there(&server, &declared.location).await, 3);
    world.clock.passed_ms.store(purge::GRACE_MS + 1000, Ordering::Relaxed);
    assert_eq!(server.run_purges().await.ended, 1);
    assert_eq!(there(&server, &declared.location).await, 1, "what may not be Lance's stays");
    server.drop_namespace(&space.parts, None).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_no_server_made_keeps_what_is_not_lances() {
    let world = World::new().await;
    let server = world.server().await;
    let (table, twin) = (named(&["t"]), named(&["twin"]));
    for file in ["_versions/1.manifest", "data/x.lance", "mine/notes", "inner/data/x"] {
        put(&server, &format!("s3://b/lake/own/{file}"), "x").await;
    }
    let own = |name| NewLanceTable { location: Some("own".to_owned()), ..new(name) };
    server.register_lance(own(&table)).await.unwrap();
    assert_eq!(kind(server.register_lance(own(&twin)).await), Kind::Invalid);
    // As two declarations at once can make it.
    let at = server.head().await.unwrap();
    let entry = server.entry(&at, &table.catalog_name().unwrap()).await.unwrap().unwrap();
    let create = Action::Create { name: twin.catalog_name().unwrap(), entry };
    server.inner.committer.commit(vec![create]).await.unwrap();
    server.drop_lance(&table).await.unwrap();
    assert_eq!(kind(server.drop_lance(&twin).await), Kind::Unavailable);
    world.clock.passed_ms.store(purge::GRACE_MS + 1000, Ordering::Relaxed);
    assert_eq!(server.run_purges().await.ended, 1);
    assert_eq!(there(&server, "s3://b/lake/own").await, 4, "another name stands for it");
    server.drop_lance(&twin).await.unwrap();
    world.clock.passed_ms.store(3 * purge::GRACE_MS, Ordering::Relaxed);
    assert_eq!(server.run_purges().await.ended, 1);
    assert_eq!(there(&server, "s3://b/lake/own").await, 2);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_declared_is_refused() {
    let world = World::new().await;
    let server = world.server().await;
    let table = named(&["t"]);
    let with = |key: &str, value: &str| NewLanceTable {
        properties: BTreeMap::from([(key.to_owned(), value.to_owned())]),
        ..new(&table)
    };
    let at = |location: &str| NewLanceTable { location: Some(location.to_owned()), ..new(&table) };
    for wrong in [
        with("glidepath.format", "iceberg"),
        with(MANAGED_VERSIONING, "yes"),
        at("s3://elsewhere/t"),
        at("s3://b/lake/a~b"),
        NewLanceTable { location: Some("s3://b/lake/t".to_owned()), ..managed(&table) },
    ] {
        assert_eq!(kind(server.declare_lance(wrong).await), Kind::Invalid);
    }
    server.declare_lance(with("owner", "me")).await.unwrap();
    assert_eq!(server.describe_lance(&table).await.unwrap().properties["owner"], "me");
    let iceberg = Registration {
        identifier: table.clone(),
        metadata_location: "s3://b/lake/x/metadata/1.metadata.json".to_owned(),
        overwrite: true,
    };
    assert!(server.register_table(iceberg, None).await.is_err());
    assert_eq!(kind(server.drop_table(&table, true, None).await), Kind::NoTable);
}

#[tokio::test(start_paused = true)]
async fn the_server_orders_versions() {
    let world = World::new().await;
    let server = world.server().await;
    let (table, all) = (named(&["t"]), VersionPage::default());
    let location = server.declare_lance(managed(&table)).await.unwrap().location;
    assert_eq!(server.list_lance_versions(&table, &all).await.unwrap(), (Vec::new(), None));
    assert_eq!(kind(server.describe_lance_version(&table, None).await), Kind::NoVersion);

    let none = staged(&server, &location, 0, "none").await;
    assert_eq!(kind(server.create_lance_version(&table, &none).await), Kind::Invalid);
    let early = staged(&server, &location, 2, "early").await;
    assert_eq!(kind(server.create_lance_version(&table, &early).await), Kind::Invalid);
    let declared = server.describe_lance(&table).await.unwrap();
    assert!(!server.is_lance_written(&declared).await.unwrap(), "a staged manifest is no version");
    let mut requests = Vec::new();
    for version in 1..=20 {
        let request = staged(&server, &location, version, &format!("one-{version}")).await;
        let created = server.create_lance_version(&table, &request).await.unwrap();
        assert_eq!(created.path, paths::in_store(&paths::manifest(&location, version)));
        let content = server.inner.files.read(&paths::manifest(&location, version)).await.unwrap();
        assert_eq!(content, format!("one-{version}"));
        assert!(server.is_lance_written(&server.describe_lance(&table).await.unwrap()).await.unwrap());
        // The same again, and another manifest of the same number.
        assert_eq!(server.create_lance_version(&table, &request).await.unwrap(), created);
        let other = staged(&server, &location, version, &format!("two-{version}")).await;
        assert_eq!(kind(server.create_lance_version(&table, &other).await), Kind::Conflict);
        requests.push((request, other));
    }
    assert!(server.create_lance_version(&table, &requests[10].0).await.is_ok(), "late, and remembered");
    assert_eq!(kind(server.create_lance_version(&table, &requests[0].0).await), Kind::Unknown, "nobody can tell");
    assert_eq!(kind(server.create_lance_version(&table, &requests[0].1).await), Kind::Conflict);
    put(&server, &format!("{}-same", paths::manifest(&location, 1)), "one-1").await;
    let same = NewLanceVersion { staged: requests[0].0.staged.replace("-one-1", "-same"), ..requests[0].0.clone() };
    assert!(server.create_lance_version(&table, &same).await.is_ok(), "the same content");

    let numbers = |versions: &[LanceVersion]| versions.iter().map(|one| one.version).collect::<Vec<_>>();
    let page = |after, size| VersionPage { after, size: Some(size) };
    let (first, next) = server.list_lance_versions(&table, &page(None, 1)).await.unwrap();
    assert_eq!((numbers(&first), next), (vec![20], Some(20)));
    let (second, next) = server.list_lance_versions(&table, &page(next, 5)).await.unwrap();
    assert_eq!((numbers(&second), next), ((15..20).rev().collect(), Some(15)));
    let (rest, next) = server.list_lance_versions(&table, &page(next, 100)).await.unwrap();
    assert_eq!((numbers(&rest), next), ((1..15).rev().collect(), None));

    assert_eq!(kind(server.delete_lance_versions(&table, &[(5, u64::MAX)]).await), Kind::Invalid);
    let apart: Vec<_> = (0..1001).map(|range| (100 + 2 * range, 101 + 2 * range)).collect();
    assert_eq!(kind(server.delete_lance_versions(&table, &apart).await), Kind::Invalid);
    let meeting = [(7, 8), (2, 4), (0, 3), (3, 5), (7, 8), (9, 9), (12, 11)];
    assert_eq!(server.delete_lance_versions(&table, &meeting).await.unwrap(), 5);
    let left = server.list_lance_versions(&table, &all).await.unwrap().0;
    assert_eq!(numbers(&left), (5..=20).rev().filter(|version| *version != 7).collect::<Vec<_>>());
    assert_eq!(kind(server.describe_lance_version(&table, Some(7)).await), Kind::NoVersion);
    assert_eq!(server.describe_lance_version(&table, Some(8)).await.unwrap().version, 8);
    assert_eq!(server.describe_lance_version(&table, None).await.unwrap().bytes, Some(6));
}

#[tokio::test(start_paused = true)]
async fn each_version_has_one_winner() {
    let world = World::new().await;
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(world.server().await);
    }
    let table = named(&["t"]);
    let location = servers[0].declare_lance(managed(&table)).await.unwrap().location;
    for version in 1..=5 {
        let mut requests = Vec::new();
        for number in 0..12 {
            requests.push(staged(&servers[0], &location, version, &format!("w{number}")).await);
        }
        let tried = requests.iter().zip(servers.iter().cycle());
        let answers = glidepath_env::together(
            crate::AT_ONCE,
            tried.map(|(request, server)| server.create_lance_version(&table, request)),
        )
        .await;
        let won: Vec<_> = answers.iter().enumerate().filter(|(_, answer)| answer.is_ok()).map(|(at, _)| at).collect();
        assert_eq!(won.len(), 1, "version {version}");
        assert!(answers.into_iter().filter_map(Result::err).all(|error| error.kind == Kind::Conflict));
        let content = servers[1].inner.files.read(&paths::manifest(&location, version)).await.unwrap();
        assert_eq!(content, format!("w{}", won[0]));
    }
    // The copies of all, winners and others, are gone.
    assert_eq!(there(&servers[0], &format!("{location}/_glidepath")).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_version_whose_server_died_is_published_by_the_next() {
    let world = World::new().await;
    let server = world.server().await;
    let (table, again) = (named(&["t"]), named(&["again"]));
    let location = server.declare_lance(managed(&table)).await.unwrap().location;
    let request = staged(&server, &location, 1, "first").await;
    // Steps 2 to 5, and no further. The client deletes what it staged.
    let (pointer, head) = server.inner.head_of(&table).await.unwrap();
    let name = request.staged.rsplit('/').next().unwrap();
    let next = server.inner.copied(&head, name, None).await.unwrap().unwrap();
    server.inner.advance(&table, &pointer, &next).await.unwrap();
    server.inner.files.delete(&format!("{}/{name}", paths::versions(&location))).await.unwrap();
    assert_eq!(there(&server, &paths::versions(&location)).await, 0);

    let other = world.server().await;
    let described = other.describe_lance_version(&table, None).await.unwrap();
    assert_eq!((described.version, described.bytes), (1, Some(5)));
    assert_eq!(server.inner.files.read(&paths::manifest(&location, 1)).await.unwrap(), "first");
    assert_eq!(other.create_lance_version(&table, &request).await.unwrap(), described, "it was done");

    // A rename keeps the order; without its name the table is one that the store orders.
    other.rename_lance(&table, &again).await.unwrap();
    assert_eq!(kind(other.describe_lance_version(&table, None).await), Kind::NoTable);
    let second = staged(&server, &location, 2, "second").await;
    assert_eq!(other.create_lance_version(&again, &second).await.unwrap().version, 2);
    other.deregister_lance(&again).await.unwrap();
    let third = staged(&server, &location, 3, "third").await;
    assert_eq!(kind(other.create_lance_version(&again, &third).await), Kind::NoTable);
    let registered = NewLanceTable { location: Some(location), ..new(&table) };
    assert!(!other.register_lance(registered).await.unwrap().is_managed());
}

/// Files of which a staged manifest is read late: when the other delivery of its request was done, and has deleted it.
struct Late(Warehouse<MemoryStore>, Tested, Identifier, NewLanceVersion);

impl Files for Late {
    async fn read_up_to(&self, location: &str, most: u64) -> Result<Bytes, FileError> {
        if location.ends_with(&self.3.staged) {
            self.1.create_lance_version(&self.2, &self.3).await.unwrap();
        }
        self.0.read_up_to(location, most).await
    }

    async fn write(&self, location: &str, bytes: Bytes) -> Result<(), FileError> {
        self.0.write(location, bytes).await
    }

    async fn delete(&self, location: &str) -> Result<(), FileError> {
        self.0.delete(location).await
    }

    async fn list(&self, folder: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>, FileError> {
        self.0.list(folder, after, limit).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeated_request_whose_staged_manifest_is_gone_was_done() {
    let world = World::new().await;
    let (server, table) = (world.server().await, named(&["t"]));
    let location = server.declare_lance(managed(&table)).await.unwrap().location;
    let request = staged(&server, &location, 1, "one").await;
    let files = Warehouse::new(world.files.clone(), "s3://b/lake");
    let late = world.server_on(Late(files, world.server().await, table.clone(), request.clone())).await;
    assert_eq!(late.create_lance_version(&table, &request).await.unwrap().version, 1);
    let never = NewLanceVersion { version: 2, staged: staged_name(&location, 2), bytes: None };
    assert_eq!(kind(server.create_lance_version(&table, &never).await), Kind::Invalid);
}

fn staged_name(location: &str, version: u64) -> String {
    paths::in_store(&format!("{}-never", paths::manifest(location, version))).to_owned()
}

/// Files of which those with this end cannot be deleted.
pub(crate) struct Stuck(pub(crate) Warehouse<MemoryStore>, pub(crate) &'static str);

impl Files for Stuck {
    async fn read_up_to(&self, location: &str, most: u64) -> Result<Bytes, FileError> {
        self.0.read_up_to(location, most).await
    }

    async fn write(&self, location: &str, bytes: Bytes) -> Result<(), FileError> {
        self.0.write(location, bytes).await
    }

    async fn delete(&self, location: &str) -> Result<(), FileError> {
        if location.ends_with(self.1) {
            return Err(FileError::Failed { location: location.into(), cause: Cause::words("the disk is full") });
        }
        self.0.delete(location).await
    }

    async fn list(&self, folder: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>, FileError> {
        self.0.list(folder, after, limit).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_half_way_may_have_been_done() {
    let world = World::new().await;
    let (server, table) = (world.server().await, named(&["t"]));
    let location = server.declare_lance(managed(&table)).await.unwrap().location;
    for version in 1..=5 {
        let request = staged(&server, &location, version, &format!("v{version}")).await;
        server.create_lance_version(&table, &request).await.unwrap();
    }
    let versions = paths::versions(&location);
    let before = there(&server, &versions).await;
    let stuck: &'static str = paths::manifest(&location, 2).rsplit_once('/').unwrap().1.to_owned().leak();
    let half = world.server_on(Stuck(Warehouse::new(world.files.clone(), "s3://b/lake"), stuck)).await;
    let error = half.delete_lance_versions(&table, &[(1, 4)]).await.unwrap_err();
    assert_eq!(error.kind, Kind::Unknown, "{error:?}");
    assert!(error.message.contains("the disk is full") && error.message.contains("send the request again"));
    assert_eq!(there(&server, &versions).await, before - 2, "the others are gone");
    assert_eq!(server.delete_lance_versions(&table, &[(1, 4)]).await.unwrap(), 1);
    assert_eq!(there(&server, &versions).await, before - 3);
}
