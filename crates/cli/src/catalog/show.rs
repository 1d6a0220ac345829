//! How are entries, versions and times printed, for people and as JSON?

use chrono::{DateTime, SecondsFormat};
use glidepath_model::{Entry, Kind, Name};
use serde_json::{Value, json};

pub(super) use glidepath_model::visible;

/// "namespace", "table" or "view".
pub(super) fn kind(kind: Kind) -> &'static str {
    kind.word()
}

/// A time in UTC; times beyond the range of calendars as a number.
pub(super) fn time(unix_ms: u64) -> String {
    let time = i64::try_from(unix_ms).ok().and_then(DateTime::from_timestamp_millis);
    time.map_or_else(|| format!("{unix_ms} ms since 1970"), |time| time.to_rfc3339_opts(SecondsFormat::Millis, true))
}

/// One line for an entry.
pub(super) fn line(name: &Name, entry: &Entry) -> String {
    let version = entry.state.as_ref().map(|state| format!("v{}", state.version.0)).unwrap_or_default();
    let pointer = entry.pointer.as_ref().map(|pointer| format!("  -> {}", visible(pointer))).unwrap_or_default();
    format!("{:<9}  {version:>6}  {}{pointer}", kind(entry.kind), visible(name.as_str()))
}

/// A whole entry as JSON.
pub(super) fn entry(name: &Name, entry: &Entry) -> Value {
    let mut shown = json!({
        "name": name.as_str(),
        "parts": name.parts(),
        "kind": kind(entry.kind),
        "properties": entry.properties,
    });
    if let Some(location) = &entry.location {
        shown["location"] = json!(location);
    }
    if let Some(pointer) = &entry.pointer {
        shown["metadata_pointer"] = json!(pointer);
    }
    if !entry.base_objects.is_empty() {
        shown["base_objects"] = entry.base_objects.iter().map(Name::as_str).collect();
    }
    if let Some(state) = &entry.state {
        shown["table_version"] = json!(state.version.0);
        shown["metadata_id"] = json!(format!("{:016x}", state.metadata.0));
        shown["partition_versions"] = state.partitions.iter().map(|version| version.0).collect();
    }
    if !entry.unknown.is_empty() {
        shown["unknown_fields"] = entry.unknown.iter().map(|field| field.tag).collect();
    }
    shown
}

/// A whole entry for people.
pub(super) fn description(name: &Name, entry: &Entry) -> String {
    let mut lines = vec![format!("{} {}", kind(entry.kind), visible(name.as_str()))];
    let mut line = |what: &str, value: String| lines.push(format!("  {what:<18}{value}"));
    if let Some(location) = &entry.location {
        line("location", visible(location));
    }
    if let Some(pointer) = &entry.pointer {
        line("metadata pointer", visible(pointer));
    }
    if let Some(state) = &entry.state {
        line("table version", state.version.0.to_string());
        line("metadata", format!("{:016x}", state.metadata.0));
        if state.partitions.len() > 1 {
            let versions: Vec<String> = state.partitions.iter().map(|version| version.0.to_string()).collect();
            line("partitions at", versions.join(", "));
        }
    }
    for base in &entry.base_objects {
        line("made from", visible(base.as_str()));
    }
    for (key, value) in &entry.properties {
        line("property", format!("{} = {}", visible(key), visible(value)));
    }
    if !entry.unknown.is_empty() {
        line("unknown fields", format!("{}, of a newer version of Glidepath; kept as they are", entry.unknown.len()));
    }
    lines.join("\n")
}
