//! Every dependency's licence is one that an Apache-2.0 project may ship.

use std::process::Command;

use serde_json::Value;

/// Permissive licences only.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    // The licence of the list of certificate authorities that TLS trusts.
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "OFL-1.1",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

#[test]
fn every_dependency_is_permissively_licensed() {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .unwrap();
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 50);
    let refused: Vec<String> = packages.iter().filter_map(refusal).collect();
    assert!(refused.is_empty(), "not permissively licensed:\n{}", refused.join("\n"));
}

fn refusal(package: &Value) -> Option<String> {
    let name = package["name"].as_str()?;
    let Some(licence) = package["license"].as_str() else {
        return Some(format!("{name}: names no licence"));
    };
    // Old packages write "/" for OR.
    let expression = spdx::Expression::parse(&licence.replace('/', " OR "));
    let allowed = |requirement: &spdx::LicenseReq| {
        let id = requirement.license.id().map(|id| id.name);
        id.is_some_and(|id| ALLOWED.contains(&id))
    };
    match expression {
        Ok(expression) if expression.evaluate(allowed) => None,
        _ => Some(format!("{name}: {licence}")),
    }
}
