//! Key-value stores as stores of objects: see [`RowObjects`].
//!
//! | URL | store |
//! |---|---|
//! | `kv+file:///directory` | the disk of this machine, for one process at a time |
//! | `postgres://user:password@host:port/database?schema=name` | a PostgreSQL server |
//! | `cassandra://user:password@host:port,host:port/keyspace?copies=3` | a cluster of Apache Cassandra |
//! | `kv+memory:` | the memory of this process |
//!
//! The objects are the cells of the table [`TABLE`]. The two drivers of servers are features of `glidepath-kv`.

use std::fmt;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};

use glidepath_env::{
    Appended, Body, Capabilities, Cause, DeleteError, Denial, Guard, Key, ListPage, Metadata, Object, ObjectStore,
    Payload, PutError, ReadError, RowObjects, Table, Tag,
};
use glidepath_kv::{AnyKv, OpenUrlError, open, open_without_requests, shown, with_small_scheme};
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;

use crate::open::OpenError;

/// The table whose cells are the objects.
pub const TABLE: &str = "glidepath_objects";

/// Where the tasks of drivers run, because the runtime of the caller may end before the store.
static DRIVERS: LazyLock<std::io::Result<Runtime>> =
    LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build());

/// Objects in a key-value store. Clones share its connections.
#[derive(Clone)]
pub struct RowStore {
    url: Arc<str>,
    /// A cluster of Cassandra is connected to by the first request.
    opened: Arc<OnceCell<RowObjects<AnyKv>>>,
}

impl fmt::Debug for RowStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RowStore").field(&shown(&self.url)).finish()
    }
}

impl RowStore {
    pub(crate) fn open(url: &str) -> Result<Self, OpenError> {
        let opened = open_without_requests(url).map_err(|error| not_opened(url, error))?;
        let opened = opened.map(objects).transpose()?;
        Ok(Self { url: with_small_scheme(url).into(), opened: Arc::new(OnceCell::new_with(opened)) })
    }

    /// Whether it is in the memory of this process.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        self.url.starts_with("kv+memory:")
    }

    /// Why it takes no more writes until it is opened again, if so.
    pub(crate) fn stopped(&self) -> Option<String> {
        self.opened.get()?.cells().stopped()
    }

    async fn objects(&self) -> Result<&RowObjects<AnyKv>, Cause> {
        let connect = async || {
            let drivers = DRIVERS.as_ref().map_err(|error| Cause::words(format!("cannot start: {error}")))?;
            let url = Arc::clone(&self.url);
            let opened = drivers.spawn(async move { open(&url).await }).await;
            let cells = opened.map_err(Cause::from_error)?.map_err(Cause::from_error)?;
            objects(cells).map_err(Cause::from_error)
        };
        self.opened.get_or_try_init(connect).await
    }
}

fn objects(cells: AnyKv) -> Result<RowObjects<AnyKv>, OpenError> {
    let wrong = || OpenError::Unusable { url: TABLE.to_owned(), why: "it is no name of a table".to_owned() };
    Ok(RowObjects::new(cells, Table::new(TABLE).ok_or_else(wrong)?, rand::random::<u64>))
}

fn not_opened(url: &str, error: OpenUrlError) -> OpenError {
    match error {
        OpenUrlError::Url { shown: url, why } => OpenError::Url { url, why },
        OpenUrlError::Unusable { shown: url, why } => OpenError::Unusable { url, why },
        OpenUrlError::NotBuilt { shown: url, scheme: feature } => OpenError::NotBuilt { url, feature },
        error @ OpenUrlError::Folder(glidepath_kv::OpenError::Locked(_)) => {
            OpenError::Held { url: shown(url), why: error.to_string() }
        }
        error @ OpenUrlError::Folder(_) => OpenError::Unusable { url: shown(url), why: error.to_string() },
    }
}

/// Nothing was sent.
fn unsent(cause: Cause) -> Denial {
    Denial::certain(cause).passing()
}

/// Without its type, so that the futures of protocols, which have one for each kind of store, do not contain those of
/// two drivers.
type Call<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl ObjectStore for RowStore {
    fn capabilities(&self) -> Capabilities {
        match self.opened.get() {
            Some(objects) => objects.capabilities(),
            // A driver may repeat a request.
            None => Capabilities { put_if_absent: true, put_if_match: true, append: false, delivers_once: false },
        }
    }

    async fn get(&self, key: &Key) -> Result<Object, ReadError> {
        let call: Call<'_, _> =
            Box::pin(async move { self.objects().await.map_err(ReadError::Failed)?.get(key).await });
        call.await
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Object, ReadError> {
        let call: Call<'_, _> =
            Box::pin(async move { self.objects().await.map_err(ReadError::Failed)?.get_range(key, range).await });
        call.await
    }

    async fn head(&self, key: &Key) -> Result<Metadata, ReadError> {
        let call: Call<'_, _> =
            Box::pin(async move { self.objects().await.map_err(ReadError::Failed)?.head(key).await });
        call.await
    }

    async fn put(&self, key: &Key, body: impl Body, guard: Guard) -> Result<Tag, PutError> {
        let payload = body.into_payload();
        let call: Call<'_, _> = Box::pin(async move {
            self.objects().await.map_err(|cause| PutError::Refused(unsent(cause)))?.put(key, payload, guard).await
        });
        call.await
    }

    async fn append(&self, key: &Key, payload: Payload, offset: u64) -> Result<Appended, PutError> {
        let call: Call<'_, _> = Box::pin(async move {
            self.objects().await.map_err(|cause| PutError::Refused(unsent(cause)))?.append(key, payload, offset).await
        });
        call.await
    }

    async fn list(&self, prefix: &Key, after: Option<&Key>, limit: usize) -> Result<ListPage, ReadError> {
        let call: Call<'_, _> =
            Box::pin(async move { self.objects().await.map_err(ReadError::Failed)?.list(prefix, after, limit).await });
        call.await
    }

    async fn list_folder(&self, folder: &Key, after: Option<&Key>, limit: usize) -> Result<ListPage, ReadError> {
        let call: Call<'_, _> = Box::pin(async move {
            self.objects().await.map_err(ReadError::Failed)?.list_folder(folder, after, limit).await
        });
        call.await
    }

    async fn delete(&self, key: &Key) -> Result<(), DeleteError> {
        let call: Call<'_, _> =
            Box::pin(async move { self.objects().await.map_err(DeleteError::Refused)?.delete(key).await });
        call.await
    }
}
