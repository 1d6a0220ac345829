//! Metadata files in memory. A file never changes while the catalog names it, so a copy is never out of date; which
//! file is current is asked of the catalog each time. A file that is registered again may be another one of the same
//! name, so a copy is of one registration.

use std::collections::{BTreeMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use glidepath_model::{Action, Assertion, Entry, Name};
use glidepath_table::{commit, files, json};
use iceberg::spec::{TableMetadata, ViewMetadata};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Kind, ServiceError};
use crate::gunzip::gunzipped;

/// Metadata files with more bytes are read one after the other: decoded, one takes about ten times as much.
pub(crate) const LARGE: u64 = 8 << 20;

/// A metadata file: as it is written, and decoded.
#[derive(Debug)]
pub struct Body<M> {
    /// Where it is.
    pub location: String,
    /// Its content.
    pub metadata: M,
    /// The same as JSON, uncompressed.
    pub json: Bytes,
    /// Whether this server wrote it, so that nothing in the JSON is missing from the metadata.
    pub written: bool,
    /// The registration by which the table or view got its entry: what the property `glidepath.registered` says;
    /// none if it was created.
    pub registered: Option<String>,
}

/// A table or a view as a client loads it.
pub type Loaded<M> = Arc<Body<M>>;

/// The property of an entry that tells registrations apart: a fresh random text. Its pointer may be that of an entry
/// before, with another file.
pub(crate) const REGISTERED: &str = "glidepath.registered";

/// The registration by which an entry came to be; none if what it names was created.
pub(crate) fn registration(entry: &Entry) -> Option<&str> {
    entry.properties.get(REGISTERED).map(String::as_str)
}

impl<M> Body<M> {
    /// The condition that an entry is still of the registration that this was read for. Without it, a commit on a file
    /// of the same name would replace what was registered since.
    pub(crate) fn same_registration(&self, name: &Name) -> Action {
        let holds = Assertion::Property { key: REGISTERED.to_owned(), value: self.registered.clone() };
        Action::Assert { name: name.clone(), holds }
    }

    /// The same for the registration of another.
    pub(crate) fn registered_as<N>(self, on: Option<&Body<N>>) -> Self {
        Self { registered: on.and_then(|on| on.registered.clone()), ..self }
    }
}

/// What is kept in metadata files.
pub trait Metadata: Serialize + DeserializeOwned {
    /// Where those in memory are.
    fn kept(bodies: &Bodies) -> &Cache<Self>;

    /// As JSON.
    ///
    /// # Errors
    /// If it has no JSON form.
    fn to_json(&self) -> Result<Value, ServiceError> {
        let value = serde_json::to_value(self);
        let mut value = value.map_err(|error| ServiceError::new(Kind::Broken, error.to_string()))?;
        json::restore(&mut value);
        Ok(value)
    }

    /// From JSON.
    ///
    /// # Errors
    /// If it is something else.
    fn from_json(json: &[u8]) -> Result<Self, serde_json::Error> {
        json::decode_file(json)
    }
}

impl Metadata for TableMetadata {
    fn kept(bodies: &Bodies) -> &Cache<Self> {
        &bodies.tables
    }

    fn to_json(&self) -> Result<Value, ServiceError> {
        Ok(commit::to_json(self)?)
    }

    fn from_json(json: &[u8]) -> Result<Self, serde_json::Error> {
        commit::from_json(json)
    }
}

impl Metadata for ViewMetadata {
    fn kept(bodies: &Bodies) -> &Cache<Self> {
        &bodies.views
    }
}

impl<M: Metadata> Body<M> {
    /// A new file of this content. It is not larger than what a server reads.
    pub(crate) fn of(location: String, metadata: M) -> Result<Self, ServiceError> {
        // The library for Iceberg panics at some values. What one client sends must not cost others their commits.
        let content = std::panic::catch_unwind(AssertUnwindSafe(|| metadata.to_json()))
            .map_err(|_| ServiceError::invalid("the metadata has a value that the library for Iceberg cannot write"))?;
        let content = in_order(content?);
        // One that is deeper could be written, and not read.
        let (depth, length) = extent(&content);
        if depth > MOST_DEPTH {
            let words = format!(
                "the metadata would be nested to more than {MOST_DEPTH} levels, too deep to be read: use a \
                                 schema of fewer levels"
            );
            return Err(ServiceError::invalid(words));
        }
        let mut json = Vec::with_capacity(length);
        serde_json::to_writer(&mut json, &content).map_err(|error| {
            ServiceError::new(Kind::Broken, format!("the metadata cannot be written as JSON: {error}"))
        })?;
        if json.len() as u64 > files::MOST {
            let words = format!(
                "the metadata would have {} bytes; at most {} are allowed: remove snapshots, schemas or properties first",
                json.len(),
                files::MOST
            );
            return Err(ServiceError::invalid(words));
        }
        Ok(Self { location, metadata, json: json.into(), written: true, registered: None })
    }

    /// The file as read; `None` if it has more than this many bytes uncompressed.
    pub(crate) fn read(location: &str, file: Bytes, most: u64) -> Result<Option<Self>, ServiceError> {
        let broken = |error: String| {
            ServiceError::new(Kind::Broken, format!("the metadata file {location} cannot be read: {error}"))
        };
        let Some(json) = gunzipped(file, most).map_err(broken)? else { return Ok(None) };
        // With checks for overflow, the library for Iceberg panics at some times.
        let decoded = std::panic::catch_unwind(|| M::from_json(&json));
        let decoded = decoded.map_err(|_| broken("a number in it is out of all bounds".to_owned()))?;
        let metadata = decoded.map_err(|error| broken(glidepath_table::unreadable::explained(&json, &error)))?;
        Ok(Some(Self { location: location.to_owned(), metadata, json, written: false, registered: None }))
    }
}

/// Lists whose order means nothing, by what they are sorted by. The crate keeps them in hash maps, so without this the
/// same metadata would give other bytes each time; and clients show them in the order of the file.
const UNORDERED: [(&str, &str); 8] = [
    ("schemas", "schema-id"),
    ("partition-specs", "spec-id"),
    ("sort-orders", "order-id"),
    ("snapshots", "sequence-number"),
    ("statistics", "snapshot-id"),
    ("partition-statistics", "snapshot-id"),
    ("versions", "version-id"),
    ("encryption-keys", "key-id"),
];

/// The most levels of lists and objects that a reader of JSON takes.
const MOST_DEPTH: usize = 127;

/// How deep a value is nested, and about how many bytes it takes as JSON.
fn extent(value: &Value) -> (usize, usize) {
    /// Of a number, and of what separates a value from the next.
    const NUMBER: usize = 8;
    const AROUND: usize = 4;
    let within = |(depth, length): (usize, usize), name: usize, item: &Value| {
        let (inner, bytes) = extent(item);
        (depth.max(1 + inner), length + name + bytes + AROUND)
    };
    match value {
        Value::Array(items) => items.iter().fold((1, AROUND), |all, item| within(all, 0, item)),
        Value::Object(fields) => fields.iter().fold((1, AROUND), |all, (name, item)| within(all, name.len(), item)),
        Value::String(text) => (0, text.len()),
        _ => (0, NUMBER),
    }
}

fn in_order(mut metadata: Value) -> Value {
    for (list, by) in UNORDERED {
        if let Some(items) = metadata.get_mut(list).and_then(Value::as_array_mut) {
            let key = |item: &Value| {
                let number = |name: &str| item.get(name).and_then(Value::as_i64).unwrap_or_default();
                let text = item.get(by).and_then(Value::as_str).unwrap_or_default().to_owned();
                (number(by), number("timestamp-ms"), number("snapshot-id"), text)
            };
            items.sort_by_cached_key(key);
        }
    }
    metadata
}

/// The newest files read or written, up to a number of bytes.
pub struct Bodies {
    pub(crate) tables: Cache<TableMetadata>,
    pub(crate) views: Cache<ViewMetadata>,
    /// Held while a large one is read.
    pub(crate) large: futures_util::lock::Mutex<()>,
}

impl Bodies {
    pub(crate) fn new(most_bytes: u64) -> Self {
        Self {
            tables: Cache::new(most_bytes),
            views: Cache::new(most_bytes / 8),
            large: futures_util::lock::Mutex::new(()),
        }
    }
}

pub struct Cache<M> {
    most_bytes: u64,
    kept: Mutex<Kept<M>>,
}

struct Kept<M> {
    bodies: BTreeMap<String, Arc<Body<M>>>,
    /// In the order in which they came.
    order: VecDeque<String>,
    bytes: u64,
}

impl<M> Cache<M> {
    fn new(most_bytes: u64) -> Self {
        let kept = Kept { bodies: BTreeMap::new(), order: VecDeque::new(), bytes: 0 };
        Self { most_bytes, kept: Mutex::new(kept) }
    }

    /// The file as it was at any time.
    pub(crate) fn get(&self, location: &str) -> Option<Arc<Body<M>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).bodies.get(location).cloned()
    }

    /// The file of an entry that came to be by this registration.
    pub(crate) fn of_registration(&self, location: &str, registered: Option<&str>) -> Option<Arc<Body<M>>> {
        self.get(location).filter(|body| body.registered.as_deref() == registered)
    }

    pub(crate) fn put(&self, body: Arc<Body<M>>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (location, bytes) = (body.location.clone(), cost(&body));
        kept.bytes += bytes;
        match kept.bodies.insert(location.clone(), body) {
            // A file of the same name that was read again, and may be another one.
            Some(before) => kept.bytes -= cost(&before),
            None => kept.order.push_back(location),
        }
        while kept.bytes > self.most_bytes
            && let Some(oldest) = kept.order.pop_front()
        {
            if let Some(gone) = kept.bodies.remove(&oldest) {
                kept.bytes -= cost(&gone);
            }
        }
    }
}

/// Bytes in memory: the text, and what is decoded from it, which takes about three times as much.
fn cost<M>(body: &Body<M>) -> u64 {
    4 * body.json.len() as u64 + 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_replaces_another_is_counted_in_its_place() {
        let cache = Cache::new(1 << 20);
        let put = |location: &str, bytes: usize| {
            let (location, json) = (location.to_owned(), vec![b' '; bytes].into());
            cache.put(Arc::new(Body { location, metadata: (), json, written: false, registered: None }));
        };
        let counted = || cache.kept.lock().unwrap().bytes;
        put("a", 10);
        let little = counted();
        put("a", 200_000);
        assert!(counted() > 800_000, "{}", counted());
        put("a", 10);
        assert_eq!(counted(), little);
        put("a", 200_000);
        put("b", 100_000);
        assert!(cache.get("a").is_none() && cache.get("b").is_some());
        assert!(counted() < 500_000, "{}", counted());
    }
}
