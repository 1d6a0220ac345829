//! Looking into a folder that may have objects of somebody else.

use glidepath_env::{Key, ObjectStore, ReadError};

use crate::mutant::{self, Mutant};

/// Keys listed at a time, behind the first.
const PAGE: usize = 1000;

/// What the first key of a folder says, of those that say anything: the others are somebody else's.
pub(crate) async fn first_of<S: ObjectStore, T>(
    store: &S,
    folder: &Key,
    says: impl Fn(&Key) -> Option<T>,
) -> Result<Option<T>, ReadError> {
    let (mut after, mut limit) = (None::<Key>, 1);
    loop {
        let page = store.list_folder(folder, after.as_ref(), limit).await?;
        let found = page.objects.iter().find_map(|listed| says(&listed.key));
        after = page.objects.last().map(|listed| listed.key.clone());
        let enough = found.is_some() || mutant::is(Mutant::FirstListedTaken);
        if enough || !page.more || after.is_none() {
            return Ok(found);
        }
        limit = PAGE;
    }
}
