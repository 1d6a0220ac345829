//! Manifest lists: decoded by field id, and encoded.

use std::sync::Arc;

use iceberg::spec::{ByteBuf, FieldSummary, FormatVersion, ManifestContentType, ManifestFile};

use super::avro::{
    BLOCK, Block, BlockWriter, Fault, Fields, File, LEVEL, Most, Row, file_of, put_bytes, put_long, put_optional,
    required,
};

/// The manifests of a snapshot, in the order of its list.
pub(super) type Manifests = Vec<Arc<ManifestFile>>;

/// The fields of manifest lists of versions 1 to 3.
const KNOWN: [i64; 16] = [500, 501, 502, 503, 504, 505, 506, 507, 512, 513, 514, 515, 516, 517, 519, 520];
/// The fields of the summaries in field 507.
const KNOWN_IN_SUMMARY: [i64; 4] = [509, 510, 511, 518];

/// What is read of a list.
const MOST: Most = Most { bytes: 64 << 20, records: 200_000 };

/// The manifest list of a snapshot that is not in the table yet.
#[derive(Clone, Debug)]
pub(super) struct Own {
    /// The format version that the file claims, if it claims one.
    pub(super) version: Option<String>,
    /// The manifests that the snapshot says it adds.
    pub(super) added: Manifests,
    pub(super) others: Others,
}

/// The manifests of a list that its snapshot does not add, in their order.
#[derive(Clone, Debug)]
pub(super) enum Others {
    /// Their paths.
    Paths(Vec<Box<str>>),
    /// The manifests of the list at this location, all of them.
    Of(String),
}

impl Others {
    /// Whether they are the manifests of the list at this location, in its order.
    pub(super) fn are(&self, list: &str, manifests: &Manifests) -> bool {
        match self {
            Self::Of(other) => other == list,
            Self::Paths(paths) => {
                paths.len() == manifests.len()
                    && paths.iter().zip(manifests).all(|(path, one)| **path == *one.manifest_path)
            }
        }
    }

    /// About how many bytes of memory they take.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Paths(paths) => paths.iter().map(|path| path.len() + 24).sum(),
            Self::Of(list) => list.len(),
        }
    }
}

/// About how many bytes of memory a manifest of a list takes.
pub(super) fn memory(manifest: &ManifestFile) -> usize {
    const ENTRY: usize = 512;
    let bound = |bound: &Option<ByteBuf>| bound.as_ref().map_or(0, |bytes| bytes.len());
    let summary = |one: &FieldSummary| size_of::<FieldSummary>() + bound(&one.lower_bound) + bound(&one.upper_bound);
    let summaries: usize = manifest.partitions.iter().flatten().map(summary).sum();
    ENTRY + manifest.manifest_path.len() + summaries + manifest.key_metadata.as_ref().map_or(0, Vec::len)
}

/// What is read of a list that may take so much memory: in it, one takes about twice as much as in the file, and the
/// paths of others are not kept.
fn bounds(most: usize) -> Most {
    Most { bytes: MOST.bytes.min(most.saturating_mul(8)), ..MOST }
}

/// Memory that is left for what is decoded.
struct Room(usize);

impl Room {
    fn take(&mut self, bytes: usize) -> Result<(), Fault> {
        self.0 = self.0.checked_sub(bytes).ok_or("it takes more memory than it may")?;
        Ok(())
    }
}

/// Decodes a list that takes at most about so many bytes of memory. A field that this crate does not know would be lost
/// when the list is written again, so it is a fault.
pub(super) fn decode(bytes: &[u8], most: usize) -> Result<Manifests, Fault> {
    let (file, summary) = opened(bytes)?;
    let (mut manifests, mut room) = (Vec::new(), Room(most));
    file.records(&wanted(), bounds(most), |row| {
        let manifest = manifest(row, summary.as_ref())?;
        room.take(memory(&manifest))?;
        manifests.push(Arc::new(manifest));
        Ok::<_, Fault>(())
    })?;
    Ok(manifests)
}

/// Decodes the list of a snapshot. Of manifests that it does not add, which are nearly all, only the paths matter.
/// `parent`: the location of its parent's list, and what is in it, if that is known. `most`: as for [`decode`], of what
/// it adds and of the paths of others each.
pub(super) fn decode_own(
    bytes: &[u8],
    snapshot: i64,
    parent: Option<(&str, &Manifests)>,
    most: usize,
) -> Result<Own, Fault> {
    let (file, summary) = opened(bytes)?;
    let (mut added, mut others) = (Vec::new(), Paths::after(parent.map_or(&[], |(_, manifests)| manifests)));
    let (mut room, mut taken) = (Room(most), 0);
    let pick = |row: Row<'_>| {
        let adds = required(503, row.integer::<i64>(503)?)? == snapshot;
        if !adds {
            let path = required(500, row.string(500)?)?;
            taken += path.len() + size_of::<Box<str>>();
            others.push(path);
            // Those of the parent are not copied.
            if !others.rest.is_empty() && taken > most {
                return Err("the paths of its manifests take more memory than they may".into());
            }
        }
        Ok::<_, Fault>(adds)
    };
    file.picked((&[500, 503], &wanted()), bounds(most), pick, |row| {
        let manifest = manifest(row, summary.as_ref())?;
        room.take(memory(&manifest))?;
        added.push(Arc::new(manifest));
        Ok(())
    })?;
    let others = match parent {
        Some((list, manifests)) if others.alike == manifests.len() && others.rest.is_empty() => {
            Others::Of(list.to_owned())
        }
        _ => Others::Paths(others.all()),
    };
    Ok(Own { version: file.text("format-version").map(str::to_owned), added, others })
}

/// The paths of manifests, of which the first are usually those of another list: then they are not copied.
struct Paths<'a> {
    other: &'a [Arc<ManifestFile>],
    /// How many are those of the other list, from its first.
    alike: usize,
    /// The rest.
    rest: Vec<Box<str>>,
}

impl<'a> Paths<'a> {
    fn after(other: &'a [Arc<ManifestFile>]) -> Self {
        Self { other, alike: 0, rest: Vec::new() }
    }

    fn push(&mut self, path: &str) {
        match self.other.get(self.alike) {
            Some(next) if self.rest.is_empty() && next.manifest_path == path => self.alike += 1,
            _ => self.rest.push(path.into()),
        }
    }

    fn all(self) -> Vec<Box<str>> {
        let alike = self.other[..self.alike].iter().map(|manifest| manifest.manifest_path.as_str().into());
        alike.chain(self.rest).collect()
    }
}

fn wanted() -> Vec<i64> {
    [KNOWN.as_slice(), &KNOWN_IN_SUMMARY].concat()
}

/// A list whose fields are known, and the fields of its summaries.
fn opened(bytes: &[u8]) -> Result<(File<'_>, Option<Fields>), Fault> {
    let file = File::open(bytes)?;
    all_known(&file.fields, &KNOWN)?;
    let summary = file.fields.inner(507)?;
    if let Some(summary) = &summary {
        all_known(summary, &KNOWN_IN_SUMMARY)?;
    }
    Ok((file, summary))
}

fn all_known(fields: &Fields, known: &[i64]) -> Result<(), Fault> {
    match fields.ids().find(|id| !known.contains(id)) {
        Some(id) => Err(format!("field {id} is not known; known are {known:?}")),
        None => Ok(()),
    }
}

fn manifest(row: Row<'_>, summary: Option<&Fields>) -> Result<ManifestFile, Fault> {
    let content = match row.integer::<i64>(517)? {
        None | Some(0) => ManifestContentType::Data,
        Some(1) => ManifestContentType::Deletes,
        Some(other) => return Err(format!("field 517 is {other}; 0 and 1 are known")),
    };
    let partitions = match (row.array(507)?, summary) {
        (Some(values), Some(fields)) => {
            Some(values.iter().map(|v| field_summary(Row::of(fields, v)?)).collect::<Result<Vec<_>, Fault>>()?)
        }
        _ => None,
    };
    Ok(ManifestFile {
        manifest_path: required(500, row.string(500)?)?.to_owned(),
        manifest_length: required(501, row.integer(501)?)?,
        partition_spec_id: required(502, row.integer(502)?)?,
        content,
        // Lists of version 1 have no sequence numbers, which means 0.
        sequence_number: row.integer(515)?.unwrap_or(0),
        min_sequence_number: row.integer(516)?.unwrap_or(0),
        added_snapshot_id: required(503, row.integer(503)?)?,
        added_files_count: row.integer(504)?,
        existing_files_count: row.integer(505)?,
        deleted_files_count: row.integer(506)?,
        added_rows_count: row.integer(512)?,
        existing_rows_count: row.integer(513)?,
        deleted_rows_count: row.integer(514)?,
        partitions,
        key_metadata: row.bytes(519)?.map(<[u8]>::to_vec),
        first_row_id: row.integer(520)?,
    })
}

fn field_summary(row: Row<'_>) -> Result<FieldSummary, Fault> {
    Ok(FieldSummary {
        contains_null: required(509, row.boolean(509)?)?,
        contains_nan: row.boolean(518)?,
        lower_bound: row.bytes(510)?.map(ByteBuf::from),
        upper_bound: row.bytes(511)?.map(ByteBuf::from),
    })
}

/// What a list says of itself.
pub(super) struct Header {
    pub(super) version: FormatVersion,
    pub(super) snapshot: i64,
    pub(super) parent: Option<i64>,
    pub(super) sequence_number: i64,
    /// Of version 3.
    pub(super) first_row_id: Option<u64>,
}

/// The manifests of a list in compressed blocks, in its order; a list that only adds shares most of them.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    all: Vec<Arc<Block>>,
    /// Whether the records have the fields of version 3.
    rows: bool,
}

/// Encodes a list of version 2 or 3. The counts of each manifest must be known: these versions require them. `shared`:
/// the blocks of the last manifests of this list, if they are those of another list.
pub(super) fn encode(
    header: &Header,
    manifests: &[Arc<ManifestFile>],
    shared: Option<&Blocks>,
    marker: [u8; 16],
) -> Result<(Vec<u8>, Blocks), Fault> {
    let rows = header.version >= FormatVersion::V3;
    let all = match shared.filter(|shared| shared.rows == rows) {
        Some(shared) => joined(manifests, &shared.all, rows)?,
        None => blocks(manifests, rows, LEVEL)?,
    };
    let file = file(header, &all, marker);
    Ok((file, Blocks { all, rows }))
}

fn blocks(manifests: &[Arc<ManifestFile>], rows: bool, level: u8) -> Result<Vec<Arc<Block>>, Fault> {
    let mut blocks = BlockWriter::new(level);
    for manifest in manifests {
        let counts = counts(manifest)?;
        blocks.record(|out| put_manifest(out, manifest, counts, rows));
    }
    Ok(blocks.finish())
}

/// New manifests before those of these blocks. A block is joined with the next one while it has as many records, so a
/// list has few blocks, and a record is compressed a few times only.
fn joined(manifests: &[Arc<ManifestFile>], shared: &[Arc<Block>], rows: bool) -> Result<Vec<Arc<Block>>, Fault> {
    let kept: usize = shared.iter().map(|block| block.records).sum();
    let Some(mut records) = manifests.len().checked_sub(kept) else {
        return Err("there are more manifests in blocks than in the list".to_owned());
    };
    let (mut taken, mut bytes) = (0, 0);
    while let Some(next) = shared.get(taken)
        && records >= next.records
        && bytes + next.bytes <= BLOCK
    {
        records += next.records;
        bytes += next.bytes;
        taken += 1;
    }
    let mut all = blocks(&manifests[..records], rows, LEVEL)?;
    all.extend(shared[taken..].iter().cloned());
    Ok(all)
}

fn file(header: &Header, blocks: &[Arc<Block>], marker: [u8; 16]) -> Vec<u8> {
    let mut metadata = vec![
        ("format-version", (header.version as u8).to_string()),
        ("snapshot-id", header.snapshot.to_string()),
        ("parent-snapshot-id", header.parent.map_or_else(|| "null".to_owned(), |parent| parent.to_string())),
        ("sequence-number", header.sequence_number.to_string()),
    ];
    let rows = header.version >= FormatVersion::V3;
    if let (true, Some(first)) = (rows, header.first_row_id) {
        metadata.push(("first-row-id", first.to_string()));
    }
    file_of(&schema(rows), &metadata, marker, blocks)
}

/// The counts as Avro has them: files added, existing, deleted, and the rows in each.
fn counts(manifest: &ManifestFile) -> Result<[i64; 6], Fault> {
    let m = manifest;
    let files = [m.added_files_count, m.existing_files_count, m.deleted_files_count].map(|n| n.map(u64::from));
    let rows = [m.added_rows_count, m.existing_rows_count, m.deleted_rows_count];
    let mut counts = [0; 6];
    for (count, known) in counts.iter_mut().zip(files.into_iter().chain(rows)) {
        *count = known
            .and_then(|n| i64::try_from(n).ok())
            .ok_or_else(|| format!("the counts of {} are not all known", m.manifest_path))?;
    }
    Ok(counts)
}

fn put_manifest(out: &mut Vec<u8>, manifest: &ManifestFile, counts: [i64; 6], rows: bool) {
    put_bytes(out, manifest.manifest_path.as_bytes());
    put_long(out, manifest.manifest_length);
    put_long(out, i64::from(manifest.partition_spec_id));
    put_long(out, manifest.content as i64);
    put_long(out, manifest.sequence_number);
    put_long(out, manifest.min_sequence_number);
    put_long(out, manifest.added_snapshot_id);
    for count in counts {
        put_long(out, count);
    }
    put_optional(out, manifest.partitions.as_ref(), |out, summaries| {
        if !summaries.is_empty() {
            put_long(out, summaries.len() as i64);
            for summary in summaries {
                put_summary(out, summary);
            }
        }
        put_long(out, 0);
    });
    put_optional(out, manifest.key_metadata.as_ref(), |out, key| put_bytes(out, key));
    if rows {
        put_optional(out, manifest.first_row_id, |out, id| put_long(out, id.cast_signed()));
    }
}

fn put_summary(out: &mut Vec<u8>, summary: &FieldSummary) {
    out.push(u8::from(summary.contains_null));
    put_optional(out, summary.contains_nan, |out, nan| out.push(u8::from(nan)));
    put_optional(out, summary.lower_bound.as_ref(), |out, bound| put_bytes(out, bound));
    put_optional(out, summary.upper_bound.as_ref(), |out, bound| put_bytes(out, bound));
}

/// The schema of [`put_manifest`], with the names of the specification.
fn schema(rows: bool) -> String {
    let field = |id: i64, name: &str, kind: &str| format!(r#"{{"name":"{name}","type":{kind},"field-id":{id}}}"#);
    let optional = |id: i64, name: &str, kind: &str| {
        format!(r#"{{"name":"{name}","type":["null",{kind}],"default":null,"field-id":{id}}}"#)
    };
    let summary = [
        field(509, "contains_null", r#""boolean""#),
        optional(518, "contains_nan", r#""boolean""#),
        optional(510, "lower_bound", r#""bytes""#),
        optional(511, "upper_bound", r#""bytes""#),
    ];
    let summaries = format!(
        r#"{{"type":"array","items":{{"type":"record","name":"r508","fields":[{}]}},"element-id":508}}"#,
        summary.join(",")
    );
    let mut fields = vec![
        field(500, "manifest_path", r#""string""#),
        field(501, "manifest_length", r#""long""#),
        field(502, "partition_spec_id", r#""int""#),
        field(517, "content", r#""int""#),
        field(515, "sequence_number", r#""long""#),
        field(516, "min_sequence_number", r#""long""#),
        field(503, "added_snapshot_id", r#""long""#),
        field(504, "added_files_count", r#""int""#),
        field(505, "existing_files_count", r#""int""#),
        field(506, "deleted_files_count", r#""int""#),
        field(512, "added_rows_count", r#""long""#),
        field(513, "existing_rows_count", r#""long""#),
        field(514, "deleted_rows_count", r#""long""#),
        optional(507, "partitions", &summaries),
        optional(519, "key_metadata", r#""bytes""#),
    ];
    if rows {
        fields.push(optional(520, "first_row_id", r#""long""#));
    }
    format!(r#"{{"type":"record","name":"manifest_file","fields":[{}]}}"#, fields.join(","))
}

/// The paths of the manifests in a list, whatever else it says of them.
///
/// # Errors
/// What is wrong with the file.
pub fn paths(bytes: &[u8]) -> Result<Vec<String>, String> {
    let file = File::open(bytes)?;
    let mut found = Vec::new();
    file.records(&[500], MOST, |row| {
        found.push(required(500, row.string(500)?)?.to_owned());
        Ok::<_, Fault>(())
    })?;
    Ok(found)
}

/// The manifests of a list, for programs that append as clients do.
///
/// # Errors
/// What is wrong with the file.
pub fn read(bytes: &[u8]) -> Result<Vec<Arc<ManifestFile>>, String> {
    decode(bytes, usize::MAX)
}

/// A manifest list of version 2 as a client writes it, without compression. `marker`: fresh random bytes.
///
/// # Errors
/// If the counts of a manifest are not known.
pub fn write(
    (snapshot, parent): (i64, Option<i64>),
    sequence_number: i64,
    manifests: &[Arc<ManifestFile>],
    marker: [u8; 16],
) -> Result<Vec<u8>, String> {
    let header = Header { version: FormatVersion::V2, snapshot, parent, sequence_number, first_row_id: None };
    Ok(file(&header, &blocks(manifests, false, 0)?, marker))
}
