//! The files that an append consists of: a manifest with one data file, and a manifest list. Written as cheaply as
//! possible, since their cost is the clients' and not the server's.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use glidepath_env::{Guard, Key, ObjectStore, Payload};
use glidepath_stores::{Options, Store, base_location, open_plain};
use glidepath_table::rebase::{read_list, write_list};
use iceberg::io::FileIO;
use iceberg::spec::{
    DataContentType, DataFileBuilder, DataFileFormat, ManifestContentType, ManifestFile, ManifestWriterBuilder,
    PartitionSpec, Schema, Struct,
};

use super::ServedError;
use super::head::Head;

/// The manifests of a list.
pub(super) type Manifests = Vec<Arc<ManifestFile>>;

/// How many lists of heads are kept.
const KEPT: usize = 16;

/// Where the files of a table are.
enum Place {
    /// On this machine.
    Disk,
    /// In a store, under this location.
    Store(Box<Store>, String),
}

/// The files of one table.
pub(super) struct TableFiles {
    place: Place,
    /// The location of the table.
    location: String,
    template: Template,
    lists: Mutex<VecDeque<(String, Arc<Manifests>)>>,
}

fn failed(what: &str, why: impl std::fmt::Display) -> ServedError {
    ServedError::Files(format!("{what}: {why}"))
}

fn path_of(location: &str) -> Option<PathBuf> {
    let path = location.strip_prefix("file:")?;
    Some(PathBuf::from(format!("/{}", path.trim_start_matches('/'))))
}

impl TableFiles {
    /// Of the table at a location; `warehouse` is the URL of the store that has it, if it is not on this machine.
    pub(super) async fn of(location: &str, warehouse: Option<&str>) -> Result<Self, ServedError> {
        let location = location.trim_end_matches('/').to_owned();
        let place = match (path_of(&location), warehouse) {
            (Some(path), _) => {
                let folder = path.join("metadata");
                std::fs::create_dir_all(&folder).map_err(|error| failed(&folder.display().to_string(), error))?;
                Place::Disk
            }
            (None, Some(url)) => {
                let base = base_location(url).map_err(|error| failed(url, error))?;
                let store = open_plain(url, &Options::default()).map_err(|error| failed(url, error))?;
                if !location.starts_with(&base) {
                    return Err(failed(&location, format!("the table is not in the warehouse {base}")));
                }
                Place::Store(Box::new(store), base)
            }
            (None, None) => {
                let words =
                    "the table is not on this machine: give the store that has it, --files s3://bucket?endpoint=...";
                return Err(failed(&location, words));
            }
        };
        let template = Template::new(&location).await?;
        Ok(Self { place, location, template, lists: Mutex::default() })
    }

    async fn write(&self, location: &str, bytes: Vec<u8>) -> Result<(), ServedError> {
        match &self.place {
            Place::Disk => {
                let path = path_of(location).unwrap_or_default();
                std::fs::write(&path, bytes).map_err(|error| failed(location, error))
            }
            Place::Store(store, base) => {
                let put = store.put(&key(location, base), Payload::from(Bytes::from(bytes)), Guard::None).await;
                put.map(drop).map_err(|error| failed(location, format!("{error:?}")))
            }
        }
    }

    async fn read(&self, location: &str) -> Result<Bytes, ServedError> {
        match &self.place {
            Place::Disk => {
                let path = path_of(location).unwrap_or_default();
                std::fs::read(&path).map(Bytes::from).map_err(|error| failed(location, error))
            }
            Place::Store(store, base) => {
                let object = store.get(&key(location, base)).await;
                object.map(|object| object.payload.bytes).map_err(|error| failed(location, error))
            }
        }
    }

    /// The manifests of a list, from memory if it was the list of a head lately.
    pub(super) async fn manifests(&self, list: &str) -> Result<Arc<Manifests>, ServedError> {
        let kept = |lists: &VecDeque<(String, Arc<Manifests>)>| {
            lists.iter().find(|(location, _)| location == list).map(|(_, manifests)| Arc::clone(manifests))
        };
        if let Some(known) = kept(&self.lists.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(known);
        }
        let read = Arc::new(read_list(&self.read(list).await?).map_err(|why| failed(list, why))?);
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        lists.push_front((list.to_owned(), Arc::clone(&read)));
        lists.truncate(KEPT);
        Ok(read)
    }

    /// Reads a list only because a client would.
    pub(super) async fn look_at(&self, list: &str) -> Result<(), ServedError> {
        self.read(list).await.map(drop)
    }

    /// Writes the manifest that a snapshot adds.
    pub(super) async fn manifest(&self, snapshot: i64) -> Result<ManifestFile, ServedError> {
        let bytes = self.template.with(snapshot);
        let path = format!("{}/metadata/{snapshot}-m0.avro", self.location);
        let listed = ManifestFile {
            manifest_path: path.clone(),
            manifest_length: bytes.len() as i64,
            partition_spec_id: 0,
            content: ManifestContentType::Data,
            sequence_number: 0,
            min_sequence_number: 0,
            added_snapshot_id: snapshot,
            added_files_count: Some(1),
            existing_files_count: Some(0),
            deleted_files_count: Some(0),
            added_rows_count: Some(1),
            existing_rows_count: Some(0),
            deleted_rows_count: Some(0),
            partitions: Some(Vec::new()),
            key_metadata: None,
            first_row_id: None,
        };
        self.write(&path, bytes).await?;
        Ok(listed)
    }

    /// Writes the list of a snapshot on top of a head; returns its location.
    pub(super) async fn list(
        &self,
        snapshot: i64,
        turn: u32,
        head: &Head,
        added: &ManifestFile,
    ) -> Result<String, ServedError> {
        let sequence_number = head.last_sequence + 1;
        let mine = ManifestFile { sequence_number, min_sequence_number: sequence_number, ..added.clone() };
        let mut all = vec![Arc::new(mine)];
        if let Some(list) = head.list() {
            all.extend(self.manifests(list).await?.iter().cloned());
        }
        let marker = (u128::from(snapshot.cast_unsigned()) << 64 | u128::from(turn)).to_be_bytes();
        let bytes = write_list((snapshot, head.snapshot), sequence_number, &all, marker);
        let location = format!("{}/metadata/snap-{snapshot}-{turn}.avro", self.location);
        self.write(&location, bytes.map_err(|why| failed(&location, why))?).await?;
        Ok(location)
    }
}

fn key(location: &str, base: &str) -> Key {
    Key::new(location.strip_prefix(base).unwrap_or(location).trim_start_matches('/'))
}

/// A manifest whose data file has a number in its name. The library writes it once; for each snapshot, only the number
/// is changed.
struct Template {
    bytes: Vec<u8>,
    at: usize,
}

/// The digits of the number.
const DIGITS: usize = 20;

impl Template {
    async fn new(location: &str) -> Result<Self, ServedError> {
        let wrong = |error: iceberg::Error| failed("a manifest cannot be written", error);
        let mark = "7".repeat(DIGITS);
        let io = FileIO::new_with_memory();
        let output = io.new_output("memory://manifest.avro").map_err(wrong)?;
        let schema = Arc::new(Schema::builder().with_fields([]).build().map_err(wrong)?);
        let builder = ManifestWriterBuilder::new(output, None, schema, PartitionSpec::unpartition_spec());
        let mut writer = builder.build_v2_data();
        let file = DataFileBuilder::default()
            .content(DataContentType::Data)
            .file_path(format!("{location}/data/{mark}.parquet"))
            .file_format(DataFileFormat::Parquet)
            .partition(Struct::empty())
            .partition_spec_id(0)
            .record_count(1)
            .file_size_in_bytes(100)
            .build()
            .map_err(|error| failed("a manifest cannot be written", error))?;
        // A negative sequence number: it is inherited.
        writer.add_file(file, -1).map_err(wrong)?;
        writer.write_manifest_file().await.map_err(wrong)?;
        let bytes = io.new_input("memory://manifest.avro").map_err(wrong)?.read().await.map_err(wrong)?;
        let at = bytes.windows(DIGITS).position(|window| window == mark.as_bytes());
        let at = at.ok_or_else(|| failed("a manifest cannot be written", "its blocks are compressed"))?;
        Ok(Self { bytes: bytes.to_vec(), at })
    }

    fn with(&self, number: i64) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes[self.at..self.at + DIGITS].copy_from_slice(format!("{number:0DIGITS$}").as_bytes());
        bytes
    }
}
