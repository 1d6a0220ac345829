//! What does the answer of `AssumeRole` say?
//!
//! The answer is small XML of a known form, read without a parser: the four values must be there exactly once, and may
//! have only characters that need no escaping. Whatever else comes is refused.

use chrono::DateTime;

/// The most characters of a value; tokens that carry a policy have a few thousand.
const LONGEST: usize = 16 * 1024;

/// The values of an answer.
pub(super) struct Answer {
    pub(super) key_id: String,
    pub(super) secret: String,
    pub(super) token: String,
    pub(super) ends_at_ms: u64,
}

/// Reads the body of an answer. An error quotes nothing, since what comes may be a secret.
pub(super) fn of(body: &str) -> Result<Answer, String> {
    let credentials = once(body, "Credentials")?;
    let ends = value(credentials, "Expiration")?;
    let ends_at = DateTime::parse_from_rfc3339(&ends).ok();
    let ends_at_ms = ends_at.and_then(|ends| u64::try_from(ends.timestamp_millis()).ok());
    Ok(Answer {
        key_id: value(credentials, "AccessKeyId")?,
        secret: value(credentials, "SecretAccessKey")?,
        token: value(credentials, "SessionToken")?,
        ends_at_ms: ends_at_ms.ok_or("the Expiration in the answer is not a time as in RFC 3339")?,
    })
}

/// What is in the element of this name, if there is exactly one.
fn once<'a>(text: &'a str, name: &str) -> Result<&'a str, String> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let inner = text.split_once(&open).and_then(|(_, rest)| rest.split_once(&close));
    match inner {
        Some((inner, rest)) if !inner.contains(&open) && !rest.contains(&open) => Ok(inner),
        Some(_) => Err(format!("the answer has more than one {name}")),
        None => Err(format!("the answer has no {name}")),
    }
}

fn value(text: &str, name: &str) -> Result<String, String> {
    let value = once(text, name)?.trim();
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'<' | b'>' | b'&' | b'"');
    if value.is_empty() || value.len() > LONGEST || !value.bytes().all(plain) {
        return Err(format!("the {name} in the answer is empty, too long, or has characters that it cannot have"));
    }
    Ok(value.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn answer(id: &str, secret: &str, token: &str, ends: &str) -> String {
        format!(
            "<?xml version=\"1.0\"?>\n<AssumeRoleResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
             <AssumeRoleResult><AssumedRoleUser><Arn>arn:x</Arn></AssumedRoleUser><Credentials>\n  \
             <AccessKeyId>{id}</AccessKeyId>\n  <SecretAccessKey>{secret}</SecretAccessKey>\n  \
             <SessionToken>\n   {token}\n  </SessionToken><Expiration>{ends}</Expiration></Credentials>\
             </AssumeRoleResult></AssumeRoleResponse>"
        )
    }

    #[test]
    fn answers_of_services() {
        let read = of(&answer("ASIA1", "a/b+c==", "x.y_z-1/+=", "2025-01-01T00:00:01Z")).unwrap();
        assert_eq!((read.key_id.as_str(), read.secret.as_str()), ("ASIA1", "a/b+c=="));
        assert_eq!((read.token.as_str(), read.ends_at_ms), ("x.y_z-1/+=", 1_735_689_601_000));
        assert!(of(&answer("I", "S", "T", "2025-01-01T00:00:01.250+02:00")).is_ok());
    }

    #[test]
    fn what_is_no_answer_is_refused_without_a_quotation() {
        let good = answer("ID", "hush", "hush", "2025-01-01T00:00:01Z");
        let long = "h".repeat(LONGEST + 1);
        for wrong in [
            String::new(),
            "<Credentials>".to_owned(),
            "</Credentials><Credentials>".to_owned(),
            good.replace("<SecretAccessKey>", "<secretaccesskey>"),
            good.replace("</SecretAccessKey>", ""),
            good.replace("</Credentials>", "<AccessKeyId>hush</AccessKeyId></Credentials>"),
            format!("{good}{good}"),
            answer("", "hush", "hush", "2025-01-01T00:00:01Z"),
            answer("ID", "hu sh", "hush", "2025-01-01T00:00:01Z"),
            answer("ID", "hush", "hush\r\nx-evil: 1", "2025-01-01T00:00:01Z"),
            answer("ID", "hu&#115;h", "hush", "2025-01-01T00:00:01Z"),
            answer("ID", "<![CDATA[hush]]>", "hush", "2025-01-01T00:00:01Z"),
            answer("ID", "hush", &long, "2025-01-01T00:00:01Z"),
            answer("ID", "hush", "hush", "soon"),
            answer("ID", "hush", "hush", "1900-01-01T00:00:01Z"),
        ] {
            let error = of(&wrong).err().unwrap();
            assert!(!error.contains("hush"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn anything_is_read_or_refused(body in "(<Credentials>|</Credentials>|<AccessKeyId>|</AccessKeyId>|.|\n){0,40}") {
            let _ = of(&body);
        }
    }
}
