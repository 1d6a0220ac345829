//! Metadata files that other writers have compressed.

use std::io::Read as _;

use bytes::Bytes;

/// The most bytes of an uncompressed metadata file.
const MOST: u64 = 128 << 20;

/// The content of a file that may be compressed by gzip.
pub(crate) fn gunzipped(file: Bytes) -> Result<Bytes, String> {
    if !file.starts_with(&[0x1f, 0x8b]) {
        return Ok(file);
    }
    let mut content = Vec::new();
    let read = flate2::read::MultiGzDecoder::new(&file[..]).take(MOST + 1).read_to_end(&mut content);
    match read {
        Ok(bytes) if bytes as u64 <= MOST => Ok(content.into()),
        Ok(_) => Err(format!("it has more than {MOST} bytes uncompressed")),
        Err(error) => Err(format!("it is not valid gzip: {error}")),
    }
}
