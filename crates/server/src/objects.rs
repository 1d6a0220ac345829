//! Objects of JSON in bodies. By itself, the code that decodes a struct takes an array, too, by the order of the
//! fields, which is no format of anybody.

use std::fmt;
use std::marker::PhantomData;

use glidepath_service::ServiceError;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::iceberg::request::or_default;

/// A value that is an object in JSON: nothing else is taken. It is decoded in one pass, without a copy.
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        value.deserialize_any(ObjectsOnly(PhantomData))
    }
}

struct ObjectsOnly<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectsOnly<T> {
    type Value = Object<T>;

    fn expecting(&self, words: &mut fmt::Formatter<'_>) -> fmt::Result {
        words.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(fields)).map(Object)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Object<T>, A::Error> {
        Err(A::Error::custom("found an array where an object is expected"))
    }
}

/// A field that is an object.
pub(crate) fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(field: D) -> Result<T, D::Error> {
    Object::deserialize(field).map(|Object(value)| value)
}

/// An optional field that is an object; `null` counts as missing.
pub(crate) fn object_or_none<'de, D: Deserializer<'de>, T: Deserialize<'de>>(field: D) -> Result<Option<T>, D::Error> {
    Ok(Option::deserialize(field)?.map(|Object(value)| value))
}

/// A field that is an array of objects.
pub(crate) fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(field: D) -> Result<Vec<T>, D::Error> {
    let all: Vec<Object<T>> = Vec::deserialize(field)?;
    Ok(all.into_iter().map(|Object(value)| value).collect())
}

/// An optional field that is an array of objects; `null` counts as missing.
pub(crate) fn objects_or_none<'de, D: Deserializer<'de>, T: Deserialize<'de>>(field: D) -> Result<Vec<T>, D::Error> {
    let all: Vec<Object<T>> = or_default(field)?;
    Ok(all.into_iter().map(|Object(value)| value).collect())
}

/// The value of a body that is an object, and that has no types of Iceberg in it.
pub(crate) fn plain<T: DeserializeOwned>(body: &[u8]) -> Result<T, ServiceError> {
    serde_json::from_slice(body)
        .map(|Object(value)| value)
        .map_err(|error| ServiceError::invalid(format!("the body of the request is wrong: {error}")))
}
