//! Metadata files that other writers have compressed.

use std::io::Read as _;

use bytes::Bytes;

/// The content of a file that may be compressed by gzip; `None` if it has more than this many bytes.
pub(crate) fn gunzipped(file: Bytes, most: u64) -> Result<Option<Bytes>, String> {
    if !file.starts_with(&[0x1f, 0x8b]) {
        return Ok(Some(file).filter(|file| file.len() as u64 <= most));
    }
    let mut content = Vec::new();
    match flate2::read::MultiGzDecoder::new(&file[..]).take(most + 1).read_to_end(&mut content) {
        Ok(bytes) => Ok((bytes as u64 <= most).then(|| content.into())),
        Err(error) => Err(format!("it is not valid gzip: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn no_more_is_unpacked_than_is_allowed() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(&[b' '; 1000]).unwrap();
        let zipped = Bytes::from(gzip.finish().unwrap());
        let plain = Bytes::from_static(&[b' '; 1000]);
        for file in [&zipped, &plain] {
            assert_eq!(gunzipped(file.clone(), 1000), Ok(Some(plain.clone())));
            assert_eq!(gunzipped(file.clone(), 999), Ok(None));
        }
        assert!(gunzipped(zipped.slice(..20), 1000).is_err());
    }
}
