//! Which session policy gives access to one folder, and to nothing else?
//!
//! In a policy, `*`, `?` and `${` in the name of an object stand for other names, and services differ in how they can
//! be escaped. So a folder whose name has any but the plainest characters gets no policy at all.
//!
//! Metadata files of Iceberg are what the catalog believes: it reads from them where a table is, and which old files to
//! delete. So whoever may write a table's files may not write these; the catalog's server does.

use serde_json::json;

use super::Permission;

/// Characters besides letters and digits of ASCII that the name of a folder may have.
const PLAIN: &str = "/-._~=+@";

/// What the names of metadata files have in common.
pub(super) const METADATA: &str = ".metadata.json";

/// The most characters of a session policy (AWS STS API reference, `AssumeRole`).
const LONGEST: usize = 2048;

/// The policy for the folder at `location`, which must be below the warehouse at `base`.
pub(super) fn of(base: &str, location: &str, partition: &str, permission: Permission) -> Result<String, String> {
    let location = location.strip_suffix('/').unwrap_or(location);
    let below = location.strip_prefix(base).and_then(|rest| rest.strip_prefix('/'));
    let Some(below) = below.filter(|below| !below.is_empty()) else {
        return Err(format!("it is not below the warehouse {base}"));
    };
    if below.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err("a part of it is empty, . or ..".to_owned());
    }
    let named = location.strip_prefix("s3://").unwrap_or_default();
    if let Some(other) = named.chars().find(|c| !c.is_ascii_alphanumeric() && !PLAIN.contains(*c)) {
        return Err(format!(
            "it has the character {other:?}, which may stand for other names in a policy; letters and digits of ASCII \
             and {PLAIN} are allowed"
        ));
    }
    let (bucket, key) = named.split_once('/').unwrap_or_default();
    let folder = format!("arn:{partition}:s3:::{bucket}/{key}");
    // The slash after the key keeps out the folder next to it whose name begins with this one.
    let mut statements = vec![
        json!({"Effect": "Allow", "Action": "s3:GetObject", "Resource": format!("{folder}/*")}),
        json!({
            "Effect": "Allow",
            "Action": "s3:ListBucket",
            "Resource": format!("arn:{partition}:s3:::{bucket}"),
            "Condition": {"StringLike": {"s3:prefix": format!("{key}/*")}},
        }),
    ];
    if permission == Permission::Write {
        let changes = ["s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"];
        statements.push(json!({"Effect": "Allow", "Action": changes, "Resource": format!("{folder}/*")}));
        let metadata = format!("{folder}/*{METADATA}*");
        statements.push(json!({"Effect": "Deny", "Action": changes, "Resource": metadata}));
    }
    let policy = json!({"Version": "2012-10-17", "Statement": statements});
    let policy = policy.to_string();
    if policy.len() > LONGEST {
        return Err(format!("its policy would have more than {LONGEST} characters; use shorter names"));
    }
    Ok(policy)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    const BASE: &str = "s3://lake/tables";

    fn read(policy: &str) -> Value {
        serde_json::from_str(policy).unwrap()
    }

    #[test]
    fn readers_cannot_write() {
        let policy = of(BASE, "s3://lake/tables/sales/orders-01", "aws", Permission::Read).unwrap();
        let policy = read(&policy);
        let statements = policy["Statement"].as_array().unwrap();
        assert_eq!(statements.len(), 2);
        assert_eq!(statements[0]["Action"], "s3:GetObject");
        assert_eq!(statements[0]["Resource"], "arn:aws:s3:::lake/tables/sales/orders-01/*");
        assert_eq!(statements[1]["Action"], "s3:ListBucket");
        assert_eq!(statements[1]["Resource"], "arn:aws:s3:::lake");
        assert_eq!(statements[1]["Condition"]["StringLike"]["s3:prefix"], "tables/sales/orders-01/*");
        assert!(!policy.to_string().contains("Put") && !policy.to_string().contains("Delete"));
    }

    #[test]
    fn writers_can_write_and_delete_there_only() {
        let policy = read(&of(BASE, "s3://lake/tables/t/", "aws-cn", Permission::Write).unwrap());
        let statements = policy["Statement"].as_array().unwrap();
        assert_eq!(statements[0]["Resource"], "arn:aws-cn:s3:::lake/tables/t/*");
        assert_eq!(statements[2]["Resource"], "arn:aws-cn:s3:::lake/tables/t/*");
        assert_eq!(statements[2]["Action"], json!(["s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]));
        assert_eq!(statements[3]["Effect"], "Deny");
        assert_eq!(statements[3]["Action"], statements[2]["Action"]);
        assert_eq!(statements[3]["Resource"], "arn:aws-cn:s3:::lake/tables/t/*.metadata.json*");
    }

    #[test]
    fn what_would_reach_further_gets_no_policy() {
        for wrong in [
            "s3://lake/tables/*",
            "s3://lake/tables/t*",
            "s3://lake/tables/?",
            "s3://lake/tables/${aws:username}",
            "s3://lake/tables/${*}",
            "s3://lake/tables/a$b",
            "s3://lake/tables/{x}",
            "s3://lake/tables/a\"b",
            "s3://lake/tables/a\\b",
            "s3://lake/tables/a b",
            "s3://lake/tables/a%2a",
            "s3://lake/tables/a\u{e4}",
            "s3://lake/tables/a\u{0}",
            "s3://lake/tables",
            "s3://lake/tables/",
            "s3://lake/tables//",
            "s3://lake/tables/a//b",
            "s3://lake/tables/a//",
            "s3://lake/tables/..",
            "s3://lake/tables/../x",
            "s3://lake/tables/./x",
            "s3://lake/tables2/x",
            "s3://lake2/tables/x",
            "s3a://lake/tables/x",
            "S3://lake/tables/x",
            "file:///lake/tables/x",
            "",
        ] {
            assert!(of(BASE, wrong, "aws", Permission::Read).is_err(), "{wrong:?}");
        }
        let long = format!("{BASE}/{}", "x".repeat(1000));
        assert!(of(BASE, &long, "aws", Permission::Write).unwrap_err().contains("shorter"));
        assert!(of("s3://lake", "s3://lake/t", "aws", Permission::Read).is_ok());
        assert!(of("s3://lake", "s3://lake", "aws", Permission::Read).is_err());
        assert!(of("s3://lake", "s3://lake/", "aws", Permission::Read).is_err());
    }

    proptest! {
        /// Whatever the location is: its policy has exactly one wildcard for objects, at the end, after the folder.
        #[test]
        fn a_policy_is_about_its_folder(rest in "[a-z/.*?$\\{\\}~\"\\\\ %-]{0,12}") {
            let location = format!("{BASE}/{rest}");
            if let Ok(policy) = of(BASE, &location, "aws", Permission::Write) {
                let policy = read(&policy);
                let resource = policy["Statement"][0]["Resource"].as_str().unwrap();
                let key = resource.strip_prefix("arn:aws:s3:::lake/tables/").unwrap().strip_suffix("/*").unwrap();
                prop_assert_eq!(key, rest.trim_end_matches('/'));
                let plain = !key.is_empty() && !key.contains(['*', '?', '$', '{', '}', '"', '\\']);
                prop_assert!(plain);
            }
        }
    }
}
