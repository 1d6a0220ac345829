//! Reads Avro files. Clients write them, so nothing in a file may make the server take more memory than the file's
//! size and a limit allow, or end its task: the library for Avro reserves what a file's counts ask for.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use miniz_oxide::inflate::decompress_to_vec_with_limit;

use super::schema::{Field, Kind, Record, parsed};
use super::{Fault, Row};

/// A value of a field that was asked for, or of one that was not.
#[derive(Debug)]
pub(in super::super) enum Value<'a> {
    Null,
    /// Nobody asked for it.
    Skipped,
    Boolean(bool),
    Long(i64),
    Bytes(&'a [u8]),
    String(&'a str),
    Array(Vec<Value<'a>>),
    Record(Vec<Value<'a>>),
}

/// The fields of a record type, by field id.
pub(in super::super) struct Fields {
    /// Each id and the place of its field, in the order of the ids.
    places: Vec<(i64, usize)>,
    record: Arc<Record>,
}

impl Fields {
    /// Each field must have an id of its own.
    fn of(record: Arc<Record>) -> Result<Self, Fault> {
        let id_of = |field: &Field| field.id.ok_or_else(|| format!("field {:?} has no field-id", field.name));
        let places = record.fields.iter().enumerate().map(|(at, field)| Ok((id_of(field)?, at)));
        let mut places = places.collect::<Result<Vec<_>, Fault>>()?;
        places.sort_unstable();
        if let Some(twice) = places.windows(2).find(|two| two[0].0 == two[1].0) {
            return Err(format!("two fields have the field-id {}", twice[0].0));
        }
        Ok(Self { places, record })
    }

    /// The fields of the records in field `id`: the field's type is a record, an array of records, or one of these or
    /// null.
    pub(in super::super) fn inner(&self, id: i64) -> Result<Option<Self>, Fault> {
        let Some(at) = self.place(id) else { return Ok(None) };
        let record = self.record.fields[at].kind.record().ok_or_else(|| format!("field {id} holds no records"))?;
        Self::of(record).map(Some)
    }

    /// The ids, in ascending order.
    pub(in super::super) fn ids(&self) -> impl Iterator<Item = i64> {
        self.places.iter().map(|(id, _)| *id)
    }

    /// The place of a field in its record.
    pub(super) fn place(&self, id: i64) -> Option<usize> {
        let found = self.places.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(self.places[found].1)
    }
}

/// A file whose header was read.
pub(in super::super) struct File<'a> {
    metadata: BTreeMap<String, &'a [u8]>,
    pub(in super::super) fields: Fields,
    blocks: Input<'a>,
    marker: &'a [u8],
}

impl<'a> File<'a> {
    /// Reads the header.
    pub(in super::super) fn open(bytes: &'a [u8]) -> Result<Self, Fault> {
        let mut input = Input(bytes);
        if input.take(4).ok() != Some(b"Obj\x01") {
            return Err("it has not the header of an Avro file".into());
        }
        let mut metadata = BTreeMap::new();
        while let Some(count) = input.count()? {
            for _ in 0..count {
                let key = std::str::from_utf8(input.bytes()?).map_err(|_| "a key in the header is no text")?;
                if metadata.insert(key.to_owned(), input.bytes()?).is_some() {
                    return Err(format!("the header has two values of {key:?}"));
                }
                if metadata.len() > MOST_KEYS {
                    return Err(format!("the header has more than {MOST_KEYS} keys"));
                }
            }
        }
        let marker = input.take(16)?;
        let schema = metadata.get("avro.schema").ok_or("the header has no schema")?;
        let fields = Fields::of(parsed(schema)?)?;
        Ok(Self { metadata, fields, blocks: input, marker })
    }

    /// The text under a key of the header.
    pub(in super::super) fn text(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// Passes each record to `each`, with the values of the fields `wanted`, whatever record they are in. Fails if
    /// there is more than `most`.
    pub(in super::super) fn records<E: From<Fault>>(
        &self,
        wanted: &[i64],
        most: Most,
        mut each: impl FnMut(Row<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let wanted = Wanted::of(wanted);
        self.each(most, |block, values| {
            block.whole(&self.fields.record, &wanted, values)?;
            each(Row { fields: &self.fields, values })
        })
    }

    /// Passes each record to `pick`, with the values of the fields `brief`; those that it picks, with `wanted` to
    /// `each`.
    pub(in super::super) fn picked<E: From<Fault>>(
        &self,
        (brief, wanted): (&[i64], &[i64]),
        most: Most,
        mut pick: impl FnMut(Row<'_>) -> Result<bool, E>,
        mut each: impl FnMut(Row<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (brief, wanted) = (Wanted::of(brief), Wanted::of(wanted));
        self.each(most, |block, values| {
            let mut again = Input(block.0);
            block.whole(&self.fields.record, &brief, values)?;
            if !pick(Row { fields: &self.fields, values })? {
                return Ok(());
            }
            again.whole(&self.fields.record, &wanted, values)?;
            each(Row { fields: &self.fields, values })
        })
    }

    /// Lets `read` read each record, into a list that it may overwrite.
    fn each<E: From<Fault>>(
        &self,
        most: Most,
        mut read: impl for<'b> FnMut(&mut Input<'b>, &mut Vec<Value<'b>>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut blocks, mut left, mut records) = (Input(self.blocks.0), most.bytes, 0);
        while !blocks.0.is_empty() {
            let count = blocks.long()?;
            let block = self.decompressed(blocks.bytes()?, left)?;
            left = left
                .checked_sub(block.len())
                .ok_or_else(|| format!("its records take more than {} bytes", most.bytes))?;
            let (mut block, mut values) = (Input(&block), Vec::new());
            for _ in 0..count {
                if block.0.is_empty() {
                    return Err(Fault::from("a block has fewer records than it says").into());
                }
                records += 1;
                if records > most.records {
                    return Err(Fault::from(format!("it has more than {} records", most.records)).into());
                }
                read(&mut block, &mut values)?;
            }
            if !block.0.is_empty() || blocks.take(16)? != self.marker {
                return Err(Fault::from("a block does not end where it says").into());
            }
        }
        Ok(())
    }

    fn decompressed(&self, block: &'a [u8], most: usize) -> Result<Cow<'a, [u8]>, Fault> {
        match self.text("avro.codec") {
            None | Some("null") => Ok(Cow::Borrowed(block)),
            Some("deflate") => match decompress_to_vec_with_limit(block, most) {
                Ok(bytes) => Ok(Cow::Owned(bytes)),
                Err(e) => Err(format!("a block cannot be decompressed: {e}")),
            },
            Some(other) => Err(format!("it is compressed with {other:?}; read are \"null\" and \"deflate\"")),
        }
    }
}

/// What is read of a file.
#[derive(Clone, Copy)]
pub(in super::super) struct Most {
    /// The bytes of its records, not compressed.
    pub(in super::super) bytes: usize,
    pub(in super::super) records: usize,
}

/// The most values that are kept of what is in a record: 20,000 summaries of four fields, each with itself. A
/// partitioning has fewer fields.
const MOST_VALUES: usize = 100_000;
/// The most items of arrays that are kept of all records of a file.
const MOST_ITEMS: usize = 1_000_000;

/// The fields to keep, and how much may be kept yet: a value takes many times as much memory as in a file.
struct Wanted<'w> {
    ids: &'w [i64],
    /// Of this record.
    values: Cell<usize>,
    /// Of the file.
    items: Cell<usize>,
}

impl<'w> Wanted<'w> {
    fn of(ids: &'w [i64]) -> Self {
        Self { ids, values: Cell::new(MOST_VALUES), items: Cell::new(MOST_ITEMS) }
    }

    /// Counts the values of a record in a record, or an item of an array.
    fn count_values(&self, count: usize) -> Result<(), Fault> {
        let left = self.values.get().checked_sub(count);
        self.values.set(left.ok_or_else(|| format!("a record has more than {MOST_VALUES} values in it"))?);
        Ok(())
    }

    fn count_item(&self) -> Result<(), Fault> {
        let left = self.items.get().checked_sub(1);
        self.items.set(left.ok_or_else(|| format!("its records have more than {MOST_ITEMS} items in arrays"))?);
        self.count_values(1)
    }
}

/// Keys of a header. Those of Iceberg are six.
const MOST_KEYS: usize = 1000;

const ENDS: &str = "it ends within a value";

/// What is left of some bytes.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(ENDS)?;
        self.0 = rest;
        Ok(taken)
    }

    fn long(&mut self) -> Result<i64, Fault> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte, rest @ ..] = self.0 else { return Err(ENDS.into()) };
            self.0 = rest;
            if shift == 63 && *byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
            }
        }
        Err("it has an integer of more than 64 bits".into())
    }

    fn bytes(&mut self) -> Result<&'a [u8], Fault> {
        let length = usize::try_from(self.long()?).map_err(|_| "it has a negative length")?;
        self.take(length)
    }

    /// The number of the next items of an array or map; nothing at its end. Not to be believed: nothing is reserved for
    /// the items, and each is read from bytes of its own.
    fn count(&mut self) -> Result<Option<usize>, Fault> {
        let mut count = self.long()?;
        if count < 0 {
            // The size in bytes follows, for readers that skip.
            self.long()?;
            count = count.checked_neg().ok_or("it has a count that is too large")?;
        }
        let count = usize::try_from(count).map_err(|_| "it has a count that is too large")?;
        Ok(if count == 0 { None } else { Some(count) })
    }

    /// A record that is in no other one, in place of these values.
    fn whole(&mut self, record: &Record, wanted: &Wanted<'_>, values: &mut Vec<Value<'a>>) -> Result<(), Fault> {
        values.clear();
        wanted.values.set(MOST_VALUES);
        self.record(record, wanted, values)
    }

    /// The values of the fields of a record; those that are not `wanted` are skipped.
    fn record(&mut self, record: &Record, wanted: &Wanted<'_>, values: &mut Vec<Value<'a>>) -> Result<(), Fault> {
        for field in &record.fields {
            values.push(match field.id {
                Some(id) if wanted.ids.contains(&id) => self.value(&field.kind, wanted)?,
                _ => self.skip(&field.kind).map(|()| Value::Skipped)?,
            });
        }
        Ok(())
    }

    /// A value; of the fields of records in it, those that are not `wanted` are skipped.
    fn value(&mut self, kind: &Kind, wanted: &Wanted<'_>) -> Result<Value<'a>, Fault> {
        Ok(match kind {
            Kind::Null => Value::Null,
            Kind::Boolean => Value::Boolean(self.take(1)?[0] != 0),
            Kind::Long => Value::Long(self.long()?),
            Kind::Fixed(size) => Value::Bytes(self.take(*size)?),
            Kind::Bytes => Value::Bytes(self.bytes()?),
            Kind::String => {
                let text = std::str::from_utf8(self.bytes()?);
                Value::String(text.map_err(|_| "it has a string that is no text")?)
            }
            Kind::Array(items) => {
                let mut values = Vec::new();
                self.items(|input| {
                    wanted.count_item()?;
                    values.push(input.value(items, wanted)?);
                    Ok(())
                })?;
                Value::Array(values)
            }
            Kind::Map(_) | Kind::Enum => self.skip(kind).map(|()| Value::Skipped)?,
            Kind::Union(kinds) => self.chosen(kinds).and_then(|kind| self.value(kind, wanted))?,
            Kind::Record(record) => {
                wanted.count_values(record.fields.len())?;
                let mut values = Vec::with_capacity(record.fields.len());
                self.record(record, wanted, &mut values)?;
                Value::Record(values)
            }
        })
    }

    /// Passes over a value.
    fn skip(&mut self, kind: &Kind) -> Result<(), Fault> {
        match kind {
            Kind::Null => Ok(()),
            Kind::Boolean => self.take(1).map(drop),
            Kind::Long | Kind::Enum => self.long().map(drop),
            Kind::Fixed(size) => self.take(*size).map(drop),
            Kind::Bytes | Kind::String => self.bytes().map(drop),
            Kind::Array(items) => self.items(|input| input.skip(items)),
            Kind::Map(values) => self.items(|input| {
                input.bytes()?;
                input.skip(values)
            }),
            Kind::Union(kinds) => self.chosen(kinds).and_then(|kind| self.skip(kind)),
            Kind::Record(record) => record.fields.iter().try_for_each(|field| self.skip(&field.kind)),
        }
    }

    /// The type of the next value, of those of its union.
    fn chosen<'k>(&mut self, kinds: &'k [Kind]) -> Result<&'k Kind, Fault> {
        let at = usize::try_from(self.long()?).ok().and_then(|at| kinds.get(at));
        at.ok_or_else(|| "it has a value of a type that its union has not".into())
    }

    /// Lets `read` read each item of an array or map.
    fn items(&mut self, mut read: impl FnMut(&mut Self) -> Result<(), Fault>) -> Result<(), Fault> {
        while let Some(count) = self.count()? {
            for _ in 0..count {
                let before = self.0.len();
                read(self)?;
                if self.0.len() == before {
                    return Err("it has an array of items without content".into());
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::super::{BlockWriter, file_of, put_bytes, put_long};
    use super::*;

    /// What a file of one record says of its field 0, an integer.
    fn integer(kind: &str, value: &[u8], header: &[(&str, String)]) -> Result<Option<i64>, Fault> {
        integer_of(kind, value, header, 100)
    }

    fn integer_of(
        kind: &str,
        value: &[u8],
        header: &[(&str, String)],
        bytes_at_most: usize,
    ) -> Result<Option<i64>, Fault> {
        let schema = format!(r#"{{"type":"record","name":"r","fields":[{{"name":"a","type":{kind},"field-id":0}}]}}"#);
        let mut blocks = BlockWriter::new(0);
        blocks.record(|out| out.extend_from_slice(value));
        let bytes = file_of(&schema, header, [7; 16], &blocks.finish());
        let mut found = None;
        File::open(&bytes)?.records(&[0], Most { bytes: bytes_at_most, records: 1 }, |row| {
            found = row.integer(0)?;
            Ok::<_, Fault>(())
        })?;
        Ok(found)
    }

    #[test]
    fn an_integer_has_64_bits() {
        assert_eq!(integer(r#""long""#, &[[0xff; 9].as_slice(), &[1]].concat(), &[]), Ok(Some(i64::MIN)));
        for last in [2, 0x7f, 0x81] {
            let error = integer(r#""long""#, &[[0xff; 9].as_slice(), &[last]].concat(), &[]).unwrap_err();
            assert!(error.contains("more than 64 bits"), "{error}");
        }
    }

    /// What the symbols of an enum mean is not known.
    #[test]
    fn an_enum_is_no_integer() {
        let kind = r#"{"type":"enum","name":"e","symbols":["DELETED","ADDED"]}"#;
        assert!(integer(kind, &[2], &[]).unwrap_err().contains("not an integer"));
    }

    /// A type, by a number: the last of the records `before` it, or the one before that; of the first, `leaf`. Or, if
    /// there are `others`, another type.
    fn kind(choice: u32, before: usize, (leaf, others): (&str, bool)) -> String {
        let record = match before {
            0 => format!(r#""{leaf}""#),
            many => format!(r#""r{}""#, many.saturating_sub(1 + choice as usize / 20 % 2)),
        };
        match choice % 20 + if others { 0 } else { 20 } {
            0 => r#""boolean""#.to_owned(),
            1 => r#""string""#.to_owned(),
            2 => format!(r#"{{"type":"array","items":{record}}}"#),
            3 => format!(r#"{{"type":"map","values":{record}}}"#),
            4 => format!(r#"["null",{record}]"#),
            5 => format!(r#"[{record},"bytes"]"#),
            _ => record,
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { cases: 300, ..Default::default() })]

        /// Whatever its schema and its records are, a file is read or refused, soon: types name those before them.
        #[test]
        fn any_file_is_read_or_refused(
            records in proptest::collection::vec(proptest::collection::vec(proptest::prelude::any::<u32>(), 1..4), 1..70),
            leaf in proptest::sample::select(vec!["null", "long"]),
            others in proptest::prelude::any::<bool>(),
            content in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300),
            count in proptest::prelude::any::<i64>(),
        ) {
            let field = |(at, choice, before): (usize, u32, usize)| {
                format!(r#"{{"name":"f{at}","field-id":{},"type":{}}}"#, at % 3, kind(choice, before, (leaf, others)))
            };
            let record = |(level, fields): (usize, &Vec<u32>)| {
                let fields = fields.iter().enumerate().map(|(at, choice)| field((at, *choice, level)));
                let fields = fields.collect::<Vec<_>>().join(",");
                let kind = format!(r#"{{"type":"record","name":"r{level}","fields":[{fields}]}}"#);
                format!(r#"{{"name":"of{level}","field-id":{level},"type":{kind}}}"#)
            };
            let all = records.iter().enumerate().map(record).collect::<Vec<_>>().join(",");
            let schema = format!(r#"{{"type":"record","name":"all","fields":[{all}]}}"#);
            let mut bytes = file_of(&schema, &[], [7; 16], &[]);
            put_long(&mut bytes, count);
            put_bytes(&mut bytes, &miniz_oxide::deflate::compress_to_vec(&content, 0));
            bytes.extend_from_slice(&[7; 16]);
            if let Ok(file) = File::open(&bytes) {
                let most = Most { bytes: 1000, records: 1000 };
                let _ = file.records(&[0, 1, 2, 3, 4], most, |_| Ok::<_, Fault>(()));
                let _ = file.picked((&[0, 2], &[0, 1, 2]), most, |_| Ok::<_, Fault>(true), |_| Ok(()));
            }
        }
    }

    /// Each value takes 32 bytes, and one byte in the file.
    #[test]
    fn the_values_within_a_record_are_bounded() {
        let fields =
            (0..1000).map(|at| format!(r#"{{"name":"f{at}","type":"boolean"}}"#)).collect::<Vec<_>>().join(",");
        let record = format!(r#"{{"type":"record","name":"wide","fields":[{fields}]}}"#);
        let read = |items: u8| {
            let mut value = vec![items << 1];
            value.extend(std::iter::repeat_n(1, usize::from(items) * 1000));
            value.push(0);
            integer_of(&format!(r#"{{"type":"array","items":{record}}}"#), &value, &[], 1 << 20).unwrap_err()
        };
        assert!(read(60).contains("not an integer"));
        // The count of this one takes two bytes.
        let many = [[200_u8, 1].as_slice(), &vec![1; 100_000], &[0]].concat();
        let kind = format!(r#"{{"type":"array","items":{record}}}"#);
        assert!(integer_of(&kind, &many, &[], 1 << 20).unwrap_err().contains("100000 values"));
    }

    #[test]
    fn a_header_has_a_bounded_number_of_keys() {
        let keys: Vec<String> = (0..=MOST_KEYS).map(|key| key.to_string()).collect();
        let header = |count: usize| keys[..count].iter().map(|key| (key.as_str(), String::new())).collect::<Vec<_>>();
        assert_eq!(integer(r#""int""#, &[2], &header(MOST_KEYS - 2)), Ok(Some(1)));
        assert!(integer(r#""int""#, &[2], &header(MOST_KEYS + 1)).unwrap_err().contains("keys"));
    }

    #[test]
    fn a_header_says_each_thing_once() {
        let header = |second: &'static str| [("k", "1".to_owned()), (second, "2".to_owned())];
        assert_eq!(integer(r#""int""#, &[2], &header("l")), Ok(Some(1)));
        assert!(integer(r#""int""#, &[2], &header("k")).unwrap_err().contains("two values"));
    }
}
