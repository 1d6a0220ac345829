//! Ordered listings on stores whose own listings have no order. Directory buckets of S3 Express One Zone return keys in
//! any order, accept only prefixes that end in a slash, and accept no start key. So each listing reads the whole
//! folder, and keeps the smallest matching keys: as many as were requested, and one more.
//!
//! Memory is O(limit). Requests are one per 1000 objects of the folder, however few keys are requested.

use std::collections::BTreeMap;

use glidepath_env::{Key, ListPage, Listed, ReadError};
use glidepath_model::ByteSize;
use object_store::list::PaginatedListOptions;

use super::{CloudStore, PAGE_LIMIT};

impl CloudStore {
    /// [`glidepath_env::ObjectStore::list`] for providers whose listings have no order.
    pub(super) async fn list_folder(
        &self,
        prefix: &Key,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<ListPage, ReadError> {
        let keys = &self.0.address.keys;
        let full = keys.full(prefix.as_str());
        let folder = &full[..full.rfind('/').map_or(0, |slash| slash + 1)];
        let mut least = Least { objects: BTreeMap::new(), limit, more: false };
        let mut next = PaginatedListOptions { max_keys: Some(PAGE_LIMIT), ..PaginatedListOptions::default() };
        loop {
            let listed = self.list_once(folder, next.clone()).await?;
            for object in listed.result.objects {
                let Some(key) = keys.key(object.location.as_ref()).filter(|key| key.starts_with(prefix.as_str()))
                else {
                    continue;
                };
                if after.is_none_or(|after| key > after.as_str()) {
                    least.add(key, object.size);
                }
            }
            next.page_token = listed.page_token;
            if next.page_token.is_none() {
                return Ok(least.page());
            }
        }
    }
}

/// The smallest of the added keys. A key added twice counts once.
struct Least {
    objects: BTreeMap<Box<str>, u64>,
    limit: usize,
    /// Whether there was no room for one.
    more: bool,
}

impl Least {
    fn add(&mut self, key: &str, size: u64) {
        let full = self.objects.len() >= self.limit;
        if full && self.objects.last_key_value().is_none_or(|(last, _)| key > &**last) {
            self.more = true;
            return;
        }
        self.objects.insert(key.into(), size);
        if self.objects.len() > self.limit {
            self.objects.pop_last();
            self.more = true;
        }
    }

    fn page(self) -> ListPage {
        let listed = |(key, size): (Box<str>, u64)| Listed { key: Key::new(&key), size: ByteSize::from_bytes(size) };
        ListPage { objects: self.objects.into_iter().map(listed).collect(), more: self.more }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_least_are_kept_in_order(names in prop::collection::vec("[a-d]{1,2}", 0..40), limit in 0_usize..8) {
            let mut least = Least { objects: BTreeMap::new(), limit, more: false };
            for name in &names {
                least.add(name, 1);
                prop_assert!(least.objects.len() <= limit);
            }
            let page = least.page();
            let all: BTreeSet<&str> = names.iter().map(String::as_str).collect();
            let found: Vec<&str> = page.objects.iter().map(|listed| listed.key.as_str()).collect();
            prop_assert_eq!(found, all.iter().copied().take(limit).collect::<Vec<_>>());
            prop_assert_eq!(page.more, all.len() > limit);
        }
    }
}
