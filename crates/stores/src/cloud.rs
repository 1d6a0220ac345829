//! How is a store in a cloud reached? (In the making: it opens nothing yet.)

use std::ops::Range;

use glidepath_env::{
    Appended, Body, Capabilities, DeleteError, Guard, Key, Metadata, Object, ObjectStore, Page, Payload, PutError,
    ReadError, Tag,
};
use url::Url;

use crate::open::{OpenError, Options};

/// A store in a cloud. None can be made yet.
#[derive(Clone, Debug)]
pub struct CloudStore(std::convert::Infallible);

impl CloudStore {
    pub(crate) fn open(url: &Url, _: &Options) -> Result<Self, OpenError> {
        Err(OpenError::Unusable { url: url.to_string(), why: "stores of a cloud are still in the making".to_owned() })
    }
}

impl ObjectStore for CloudStore {
    fn capabilities(&self) -> Capabilities {
        match self.0 {}
    }
    async fn get(&self, _: &Key) -> Result<Object, ReadError> {
        match self.0 {}
    }
    async fn get_range(&self, _: &Key, _: Range<u64>) -> Result<Object, ReadError> {
        match self.0 {}
    }
    async fn head(&self, _: &Key) -> Result<Metadata, ReadError> {
        match self.0 {}
    }
    async fn put(&self, _: &Key, _: impl Body, _: Guard) -> Result<Tag, PutError> {
        match self.0 {}
    }
    async fn append(&self, _: &Key, _: Payload, _: u64) -> Result<Appended, PutError> {
        match self.0 {}
    }
    async fn list(&self, _: &Key, _: Option<&Key>, _: usize) -> Result<Page, ReadError> {
        match self.0 {}
    }
    async fn delete(&self, _: &Key) -> Result<(), DeleteError> {
        match self.0 {}
    }
}
