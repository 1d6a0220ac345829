//! Requests about names: tables that are made, given a second name, renamed, dropped and purged; and namespaces.

use std::collections::HashMap;

use glidepath_env::together;
use glidepath_service::{Identifier, NamespaceChange, NewTable, Registration, TableCommit};
use iceberg::spec::{NestedField, PrimitiveType, Schema, Type};
use iceberg::{TableRequirement, TableUpdate};
use uuid::Uuid;

use super::client::{Client, SPARE};
use super::wire::Ask;
use super::{NAMESPACES, TABLES, identifier};

/// A table of one column. `mark` names the request that made it.
pub(super) fn new_table(identifier: Identifier, location: Option<String>, mark: &str) -> Option<NewTable> {
    let id = NestedField::required(1, "id", Type::Primitive(PrimitiveType::Long));
    let schema = Schema::builder().with_fields([id.into()]).build().ok()?;
    let properties = HashMap::from([(mark.to_owned(), "made".to_owned())]);
    Some(NewTable { identifier, schema, location, partition_spec: None, sort_order: None, properties })
}

impl Client {
    pub(super) async fn change_namespace(&self) {
        let number = self.fresh();
        let mark = format!("p.{number}");
        let set = [(mark.clone(), "set".to_owned()), ("last".to_owned(), mark.clone())];
        let change = NamespaceChange { updates: set.into_iter().collect(), removals: Vec::new() };
        let ask = Ask::Change(vec![NAMESPACES[0].to_owned()], change, self.key(true, mark.clone()));
        self.ask_marked(&mark, &ask, true).await;
        if number % 2 == 0 {
            together(2, [self.remove_property(&mark), self.remove_property(&mark)]).await;
        }
    }

    /// Of those who remove a property, one is told that it was there.
    async fn remove_property(&self, mark: &str) {
        let change = NamespaceChange { updates: Default::default(), removals: vec![mark.to_owned()] };
        let key = self.key(true, format!("{} removes {mark}", self.fresh()));
        self.ask_about(mark, (Ask::Change(vec![NAMESPACES[0].to_owned()], change, key), true)).await;
    }

    /// A request about a table that comes and goes; in some cases two, where the second begins before much else can
    /// happen.
    pub(super) async fn change_names(&self) {
        let number = self.draw() % u64::from(SPARE);
        let name = format!("w{number}");
        let table = identifier(&name);
        let Some(there) = self.load(&table).await else { return self.make(&name).await };
        let register = |alias| {
            self.book.borrow_mut().aliasing(there.metadata.uuid());
            let metadata_location = there.location.clone();
            let keyed = self.chance(0.7);
            let new = Registration { identifier: alias, metadata_location, overwrite: false };
            (Ask::Register(new, self.key(keyed, format!("register {}", there.location))), keyed)
        };
        let (alias, elsewhere) = self.alias(number);
        match self.draw() % 14 {
            0 => self.ask_about(&name, register(alias)).await,
            // A file may get two names only at the same time.
            1 => {
                self.ask_about(&name, self.drop(table, false)).await;
                let both = [register(alias), register(elsewhere)];
                together(2, both.map(|asked| self.ask_about(&name, asked))).await;
            }
            // Second names go before the first, or move to where somebody may have looked already.
            2 => self.ask_about(&name, self.drop(alias, true)).await,
            3 => self.ask_about(&name, self.rename(alias, elsewhere)).await,
            4 | 5 => {
                self.ask_about(&name, self.rename(table, identifier(&format!("w{}", (number + 1) % u64::from(SPARE)))))
                    .await
            }
            6 => self.ask_about(&name, self.drop(table, false)).await,
            7 | 8 => {
                self.ask_about(&name, self.drop(table, true)).await;
                self.ask_about(&name, register(alias)).await;
            }
            9 => {
                self.ask_about(&name, self.drop(table, true)).await;
                self.make(&name).await;
            }
            10 => self.move_table(&name, there.metadata.uuid(), self.folder()).await,
            // To one folder, or two of which one is in the other, at once.
            11 => {
                let other = format!("w{}", (number + 1) % u64::from(SPARE));
                let Some(second) = self.load(&identifier(&other)).await else { return self.make(&other).await };
                let both = [(&name, &there), (&other, &second)];
                let folder = format!("{TABLES}/both{}", self.draw() % 2);
                let folders = [folder.clone(), format!("{folder}{}", if self.chance(0.5) { "/in" } else { "" })];
                let moves = both.into_iter().zip(folders);
                let moves = moves.map(|((name, table), folder)| self.move_table(name, table.metadata.uuid(), folder));
                together(2, moves).await;
            }
            _ => self.ask_about(&name, self.drop(table, true)).await,
        }
    }

    /// A folder where another table may be, or come, or one in it.
    fn folder(&self) -> String {
        let inner = if self.chance(0.3) { "/in" } else { "" };
        format!("{TABLES}/w{}{inner}", self.draw() % u64::from(SPARE))
    }

    async fn move_table(&self, name: &str, uuid: Uuid, location: String) {
        let mark = format!("p.{}", self.fresh());
        let updates = HashMap::from([(mark.clone(), "set".to_owned()), ("last".to_owned(), mark.clone())]);
        let updates = vec![TableUpdate::SetProperties { updates }, TableUpdate::SetLocation { location }];
        let requirements = vec![TableRequirement::UuidMatch { uuid }];
        // Without a key a second delivery moves it there once more.
        let commit = TableCommit { requirements, updates, key: self.key(true, mark.clone()) };
        self.ask_marked(&mark, &Ask::Commit(identifier(name), commit), true).await;
    }

    async fn make(&self, name: &str) {
        let mark = format!("p.{}", self.fresh());
        let keyed = self.chance(0.7);
        // Half of them return to a place where there was a table before.
        let location = self.chance(0.5).then(|| format!("{TABLES}/{name}"));
        let Some(new) = new_table(identifier(name), location, &mark) else { return };
        let ask = Ask::Create(Box::new(new), self.key(keyed, mark.clone()));
        self.ask_marked(&mark, &ask, keyed).await;
    }

    /// The second name of a table, in either namespace, and the other of the two.
    fn alias(&self, number: u64) -> (Identifier, Identifier) {
        let place = usize::from(self.chance(0.5));
        let at =
            |place: usize| Identifier { namespace: vec![NAMESPACES[place].to_owned()], name: format!("x{number}") };
        (at(place), at(1 - place))
    }

    fn drop(&self, table: Identifier, purge: bool) -> (Ask, bool) {
        let keyed = self.chance(0.7);
        let key = self.key(keyed, format!("drop {}", table.dotted()));
        (Ask::Drop(table, purge, key), keyed)
    }

    fn rename(&self, from: Identifier, to: Identifier) -> (Ask, bool) {
        let keyed = self.chance(0.7);
        let key = self.key(keyed, format!("rename {}", from.dotted()));
        (Ask::Rename(from, to, key), keyed)
    }

    async fn ask_about(&self, name: &str, (ask, keyed): (Ask, bool)) {
        self.say(|| format!("asks about {name}: {ask:?}"));
        let told = self.submit(&ask, keyed).await;
        self.say(|| format!("is told about {name}: {told:?}"));
    }
}
