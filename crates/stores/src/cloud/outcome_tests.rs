//! Tests each row of the tables.

use super::*;

const PROVIDERS: [Provider; 3] = [Provider::S3, Provider::Azure, Provider::Gcs];
const CONDITIONS: [Condition; 4] = [Condition::None, Condition::Absent, Condition::Matches, Condition::Offset];

fn answered(status: u16, code: &str) -> Ending {
    let code = (!code.is_empty()).then(|| code.to_owned());
    Ending::Answered(Answer { status, code, words: None })
}

fn refused() -> WriteMeaning {
    WriteMeaning::Refused { later: false }
}

fn refused_for_now() -> WriteMeaning {
    WriteMeaning::Refused { later: true }
}

/// Rows that hold for every provider and every condition.
#[test]
fn endings_that_mean_the_same_everywhere() {
    let why = String::new;
    let rows = [
        (answered(200, ""), WriteMeaning::Done),
        (answered(201, ""), WriteMeaning::Done),
        (answered(301, "PermanentRedirect"), refused()),
        (answered(307, "TemporaryRedirect"), refused()),
        (answered(400, "InvalidRequest"), refused()),
        (answered(401, ""), refused()),
        (answered(403, "AccessDenied"), refused()),
        (answered(404, "NoSuchBucket"), refused()),
        (answered(404, "ContainerNotFound"), refused()),
        (answered(404, ""), refused()),
        (answered(400, "TooManyParts"), refused()),
        (answered(405, ""), refused()),
        (answered(409, "BlockCountExceedsLimit"), refused()),
        (answered(409, "InvalidBlobType"), refused()),
        (answered(412, "MaxBlobSizeConditionNotMet"), refused()),
        (answered(413, "RequestBodyTooLarge"), refused()),
        (answered(408, ""), WriteMeaning::Unknown),
        (answered(409, "OperationAborted"), refused()),
        (answered(409, "ConditionalRequestConflict"), refused()),
        (answered(412, "LeaseIdMissing"), refused()),
        (answered(429, "TooManyRequests"), refused_for_now()),
        (answered(500, "InternalError"), WriteMeaning::Unknown),
        (answered(500, "OperationTimedOut"), WriteMeaning::Unknown),
        (answered(501, "NotImplemented"), refused()),
        (answered(502, ""), WriteMeaning::Unknown),
        (answered(503, ""), WriteMeaning::Unknown),
        (answered(504, ""), WriteMeaning::Unknown),
        (answered(599, ""), WriteMeaning::Unknown),
        (answered(100, ""), WriteMeaning::Unknown),
        (Ending::Broken { why: why() }, WriteMeaning::Unknown),
        (Ending::NotConnected { timed_out: false, server: why(), why: why() }, refused()),
        (Ending::NotConnected { timed_out: true, server: why(), why: why() }, refused()),
        (Ending::NotTried { why: why() }, refused()),
    ];
    for provider in PROVIDERS {
        for condition in CONDITIONS {
            for (ending, meaning) in &rows {
                assert_eq!(of_write(provider, condition, ending), *meaning, "{provider} {condition:?} {ending:?}");
            }
        }
    }
}

#[test]
fn a_failed_condition_is_a_loss() {
    use Condition::{Absent, Matches, None, Offset};
    use Provider::{Azure, Gcs, S3};
    let rows = [
        (S3, Absent, 412, "PreconditionFailed"),
        (S3, Absent, 304, ""),
        (S3, Matches, 412, "PreconditionFailed"),
        (S3, Matches, 404, "NoSuchKey"),
        (S3, Offset, 400, "InvalidWriteOffset"),
        (S3, Offset, 404, "NoSuchKey"),
        (Azure, Absent, 409, "BlobAlreadyExists"),
        (Azure, Absent, 412, "ConditionNotMet"),
        (Azure, Matches, 412, "ConditionNotMet"),
        (Azure, Matches, 404, "BlobNotFound"),
        (Azure, Offset, 412, "AppendPositionConditionNotMet"),
        (Azure, Offset, 404, "BlobNotFound"),
        (Azure, Offset, 404, "ResourceNotFound"),
        (Gcs, Absent, 412, "PreconditionFailed"),
        (Gcs, Matches, 412, ""),
    ];
    for (provider, condition, status, code) in rows {
        let ending = answered(status, code);
        assert_eq!(of_write(provider, condition, &ending), WriteMeaning::Lost, "{provider} {condition:?} {ending:?}");
        assert_eq!(of_write(provider, None, &ending), refused(), "{provider} unguarded {ending:?}");
    }
}

#[test]
fn what_is_lost_under_one_condition_is_not_under_another() {
    for condition in [Condition::None, Condition::Absent, Condition::Matches] {
        assert_eq!(of_write(Provider::S3, condition, &answered(400, "InvalidWriteOffset")), refused());
    }
    assert_eq!(of_write(Provider::S3, Condition::Offset, &answered(304, "")), refused());
    assert_eq!(of_write(Provider::S3, Condition::Absent, &answered(404, "NoSuchKey")), refused());
}

#[test]
fn a_full_object_says_what_to_do() {
    for (status, code) in [(409, "BlockCountExceedsLimit"), (400, "TooManyParts")] {
        let words = answered(status, code).to_string();
        assert!(words.contains(code) && words.contains("go on in another object"), "{words}");
    }
    assert!(answered(409, "InvalidBlobType").to_string().contains("only one that an append created"));
}

#[test]
fn a_missing_object_is_not_a_missing_place() {
    assert!(names_missing(&answered(404, "BlobNotFound")));
    assert!(!names_missing(&answered(404, "ContainerNotFound")));
    assert!(!names_missing(&answered(404, "")));
    assert!(!names_missing(&Ending::Broken { why: String::new() }));
}

#[test]
fn only_the_providers_own_words_make_a_503_a_refusal() {
    let rows = [
        (Provider::S3, "SlowDown", refused_for_now()),
        (Provider::S3, "ServiceUnavailable", refused_for_now()),
        (Provider::S3, "ServerBusy", WriteMeaning::Unknown),
        (Provider::Azure, "ServerBusy", refused_for_now()),
        (Provider::Azure, "SlowDown", WriteMeaning::Unknown),
        (Provider::Gcs, "SlowDown", refused_for_now()),
        (Provider::Gcs, "ServiceUnavailable", WriteMeaning::Unknown),
    ];
    for (provider, code, meaning) in rows {
        assert_eq!(of_write(provider, Condition::Matches, &answered(503, code)), meaning, "{provider} {code}");
    }
}

#[test]
fn deletes() {
    for provider in PROVIDERS {
        assert_eq!(of_delete(provider, &answered(204, "")), WriteMeaning::Done);
        assert_eq!(of_delete(provider, &answered(404, "NoSuchKey")), WriteMeaning::Done);
        assert_eq!(of_delete(provider, &answered(404, "BlobNotFound")), WriteMeaning::Done);
        assert_eq!(of_delete(provider, &answered(404, "")), WriteMeaning::Unknown);
        assert_eq!(of_delete(provider, &answered(404, "NoSuchBucket")), refused());
        assert_eq!(of_delete(provider, &answered(404, "ContainerNotFound")), refused());
        assert_eq!(of_delete(provider, &answered(404, "XAdminUserNotFound")), refused());
        assert_eq!(of_delete(provider, &answered(403, "")), refused());
        assert_eq!(of_delete(provider, &answered(500, "")), WriteMeaning::Unknown);
        assert_eq!(of_delete(provider, &Ending::Broken { why: String::new() }), WriteMeaning::Unknown);
    }
}

#[test]
fn reads() {
    let later = ReadMeaning::Failed { later: true };
    let never = ReadMeaning::Failed { later: false };
    let why = String::new;
    let rows = [
        (answered(200, ""), ReadMeaning::Done),
        (answered(206, ""), ReadMeaning::Done),
        (answered(404, "NoSuchKey"), ReadMeaning::NotFound),
        (answered(404, ""), ReadMeaning::Unconfirmed),
        (answered(404, "NoSuchBucket"), never),
        (answered(404, "ContainerNotFound"), never),
        (answered(404, "XAdminUserNotFound"), never),
        (answered(404, "ResourceNotFound"), ReadMeaning::NotFound),
        (answered(416, "InvalidRange"), ReadMeaning::BeyondEnd),
        (answered(400, ""), never),
        (answered(401, ""), never),
        (answered(403, ""), never),
        (answered(301, ""), never),
        (answered(501, ""), never),
        (answered(408, ""), later),
        (answered(429, ""), later),
        (answered(500, ""), later),
        (answered(502, ""), later),
        (answered(503, "SlowDown"), later),
        (answered(504, ""), later),
        (Ending::Broken { why: why() }, later),
        (Ending::NotConnected { timed_out: false, server: why(), why: why() }, later),
        (Ending::NotConnected { timed_out: true, server: why(), why: why() }, never),
        (Ending::NotTried { why: why() }, never),
    ];
    for (ending, meaning) in rows {
        assert_eq!(of_read(&ending), meaning, "{ending:?}");
    }
}

#[test]
fn who_has_no_credentials_is_told_so() {
    let words = |why: &str| Ending::NotTried { why: why.to_owned() }.to_string();
    let of_s3 = words("PUT http://169.254.169.254/latest/api/token: 403");
    assert!(of_s3.starts_with("no credentials in the environment (docs/stores/s3.md names the variables)"), "{of_s3}");
    let of_azure = words("GET http://169.254.169.254/metadata/identity/oauth2/token: 404");
    assert!(of_azure.contains("(docs/stores/azure.md names"), "{of_azure}");
    assert_eq!(words("an impossible key"), "an impossible key");
}

#[test]
fn a_session_is_doubted_where_somebody_was_not_let_in() {
    let doubted =
        [(401, ""), (403, ""), (403, "AccessDenied"), (400, ""), (400, "ExpiredToken"), (400, "InvalidToken")];
    for (status, code) in doubted {
        assert!(may_be_the_session(&answered(status, code)), "{status} {code}");
    }
    for (status, code) in [(200, ""), (400, "InvalidWriteOffset"), (404, "NoSuchKey"), (412, ""), (503, "SlowDown")] {
        assert!(!may_be_the_session(&answered(status, code)), "{status} {code}");
    }
    // What may have had an effect is never sent again.
    assert!(!may_be_the_session(&Ending::Broken { why: String::new() }));
}
