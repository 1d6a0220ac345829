//! Requests about names: tables that are made, given a second name, renamed, dropped and purged; and namespaces.

use std::collections::HashMap;

use glidepath_service::{Identifier, NamespaceChange, NewTable, Registration};
use iceberg::spec::{NestedField, PrimitiveType, Schema, Type};

use super::client::{Client, SPARE};
use super::wire::Ask;
use super::{NAMESPACE, TABLES, identifier};

/// A table of one column. `mark` names the request that made it.
pub(super) fn new_table(identifier: Identifier, location: Option<String>, mark: &str) -> Option<NewTable> {
    let id = NestedField::required(1, "id", Type::Primitive(PrimitiveType::Long));
    let schema = Schema::builder().with_fields([id.into()]).build().ok()?;
    let properties = HashMap::from([(mark.to_owned(), "made".to_owned())]);
    Some(NewTable { identifier, schema, location, partition_spec: None, sort_order: None, properties })
}

impl Client {
    pub(super) async fn change_namespace(&self) {
        let mark = format!("p.{}", self.fresh());
        let set = [(mark.clone(), "set".to_owned()), ("last".to_owned(), mark.clone())];
        let change = NamespaceChange { updates: set.into_iter().collect(), removals: Vec::new() };
        let ask = Ask::Change(vec![NAMESPACE.to_owned()], change, self.key(true, mark.clone()));
        self.ask_marked(&mark, &ask, true).await;
    }

    pub(super) async fn make_or_drop(&self) {
        let number = self.draw() % u64::from(SPARE);
        let (name, alias) = (format!("w{number}"), identifier(&format!("x{number}")));
        let keyed = self.chance(0.7);
        let Some(there) = self.load(&identifier(&name)).await else {
            let mark = format!("p.{}", self.fresh());
            // Half of them return to a place where there was a table before.
            let location = self.chance(0.5).then(|| format!("{TABLES}/{name}"));
            let Some(new) = new_table(identifier(&name), location, &mark) else { return };
            let ask = Ask::Create(Box::new(new), self.key(keyed, mark.clone()));
            return self.ask_marked(&mark, &ask, keyed).await;
        };
        let table = identifier(&name);
        let key = self.key(keyed, format!("about {name}"));
        let ask = match self.draw() % 8 {
            0 | 1 => {
                self.book.borrow_mut().aliasing(there.metadata.uuid());
                let metadata_location = there.location.clone();
                Ask::Register(Registration { identifier: alias, metadata_location, overwrite: false }, key)
            }
            2 => Ask::Drop(alias, true, key),
            3 => Ask::Rename(table, identifier(&format!("w{}", (number + 1) % u64::from(SPARE))), key),
            4 => Ask::Drop(table, false, key),
            _ => Ask::Drop(table, true, key),
        };
        self.say(|| format!("asks about {name}: {ask:?}"));
        let told = self.submit(&ask, keyed).await;
        self.say(|| format!("is told about {name}: {told:?}"));
    }
}
