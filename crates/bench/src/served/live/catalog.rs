//! What a server of Iceberg REST is asked: paths and bodies.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use super::ServedError;
use super::http::{Address, Answer, Ask, Connection};

/// A catalog of a server.
#[derive(Clone, Debug)]
pub(super) struct Catalog {
    pub(super) address: Address,
    /// The path of its namespaces.
    namespaces: String,
}

/// What `config` says.
#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    defaults: Prefixed,
    #[serde(default)]
    overrides: Prefixed,
}

#[derive(Default, Deserialize)]
struct Prefixed {
    prefix: Option<String>,
}

/// Text as a part of a path: what is encoded already stays.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'%' | b'/' => out.push(byte.into()),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

impl Catalog {
    /// Asks the server for its prefix.
    pub(super) async fn find(address: Address, warehouse: Option<&str>) -> Result<Self, ServedError> {
        let asked =
            warehouse.map_or_else(String::new, |name| format!("?warehouse={}", encoded(name).replace('/', "%2F")));
        let path = format!("{}/v1/config{asked}", address.base);
        let answer = Connection::new(&address).send(Ask::get(&path)).await?;
        let config: Config = read(&answer, "GET /v1/config")?;
        let prefix = config.overrides.prefix.or(config.defaults.prefix).filter(|prefix| !prefix.is_empty());
        let prefix = prefix.map_or_else(String::new, |prefix| format!("/{}", encoded(&prefix)));
        let namespaces = format!("{}/v1{prefix}/namespaces", address.base);
        Ok(Self { address, namespaces })
    }

    pub(super) fn table(&self, namespace: &str, table: &str) -> String {
        format!("{}/{namespace}/tables/{table}", self.namespaces)
    }

    pub(super) async fn create_namespace(&self, namespace: &str) -> Result<(), ServedError> {
        let body = json!({"namespace": [namespace], "properties": {}}).to_string();
        let answer = Connection::new(&self.address).send(Ask::post(&self.namespaces, body)).await?;
        succeeded(&answer, "POST namespaces")
    }

    pub(super) async fn drop_namespace(&self, namespace: &str) -> Result<(), ServedError> {
        let path = format!("{}/{namespace}", self.namespaces);
        let answer = Connection::new(&self.address).send(Ask::delete(&path)).await?;
        succeeded(&answer, "DELETE namespace")
    }

    /// Creates a table; the answer has its metadata.
    pub(super) async fn create_table(
        &self,
        connection: &mut Connection,
        namespace: &str,
        table: &str,
    ) -> Result<Value, ServedError> {
        let body = json!({
            "name": table,
            // Not by default everywhere.
            "stage-create": false,
            "schema": {"type": "struct", "schema-id": 0,
                       "fields": [{"id": 1, "name": "id", "required": false, "type": "long"}]},
            "properties": {"glidepath.append-rebase": "true", "write.metadata.previous-versions-max": "10"},
        });
        let path = format!("{}/{namespace}/tables", self.namespaces);
        let answer = connection.send(Ask::post(&path, body.to_string())).await?;
        read(&answer, "POST tables")
    }

    pub(super) async fn drop_table(
        &self,
        connection: &mut Connection,
        namespace: &str,
        table: &str,
    ) -> Result<(), ServedError> {
        let path = format!("{}?purgeRequested=true", self.table(namespace, table));
        let answer = connection.send(Ask::delete(&path)).await?;
        succeeded(&answer, "DELETE table")
    }

    pub(super) async fn load(&self, connection: &mut Connection, path: &str) -> Result<Bytes, ServedError> {
        let answer = connection.send(Ask::get(path)).await?;
        succeeded(&answer, "GET table").map(|()| answer.body)
    }
}

fn succeeded(answer: &Answer, what: &'static str) -> Result<(), ServedError> {
    match answer.status {
        200..=299 => Ok(()),
        _ => Err(ServedError::Answer { what, words: answer.words() }),
    }
}

fn read<T: for<'a> Deserialize<'a>>(answer: &Answer, what: &'static str) -> Result<T, ServedError> {
    succeeded(answer, what)?;
    serde_json::from_slice(&answer.body)
        .map_err(|error| ServedError::Answer { what, words: format!("its answer is not what it should be: {error}") })
}

/// A commit that sets a property.
pub(super) fn set_property(uuid: &str, turn: u64) -> String {
    format!(
        r#"{{"requirements":[{{"type":"assert-table-uuid","uuid":"{uuid}"}}],"updates":[{{"action":"set-properties","updates":{{"turn":"{turn}"}}}}]}}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_part_of_a_path() {
        assert_eq!(encoded("main|warehouse"), "main%7Cwarehouse");
        assert_eq!(encoded("main%7Cwarehouse"), "main%7Cwarehouse");
    }

    #[test]
    fn a_commit_is_json() {
        let value: Value = serde_json::from_str(&set_property("u", 7)).unwrap();
        assert_eq!(value["updates"][0]["updates"]["turn"], "7");
    }
}
