//! Keys and regions of the files that AWS tools keep, where the environment does not say them.

use std::path::PathBuf;

use object_store::aws::AmazonS3ConfigKey;

/// What the profile says (`AWS_PROFILE`, else `default`), of what the environment does not.
pub(super) fn settings() -> Vec<(AmazonS3ConfigKey, String)> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let profile = set("AWS_PROFILE").unwrap_or_else(|| "default".to_owned());
    let file = |variable: &str, name: &str| {
        let path = set(variable).map(PathBuf::from);
        let path = path.or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".aws").join(name)))?;
        std::fs::read_to_string(path).ok()
    };
    let credentials = file("AWS_SHARED_CREDENTIALS_FILE", "credentials").unwrap_or_default();
    let config = file("AWS_CONFIG_FILE", "config").unwrap_or_default();
    let mut found = Vec::new();
    // A key of one place with a secret of another is no pair. Where a role is given, that is meant.
    let given = ["AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"];
    if set("AWS_PROFILE").is_some() || given.iter().all(|name| set(name).is_none()) {
        let named = |name: &str| value(&credentials, &profile, name).or_else(|| value(&config, &profile, name));
        if let (Some(key), Some(secret)) = (named("aws_access_key_id"), named("aws_secret_access_key")) {
            found.push((AmazonS3ConfigKey::AccessKeyId, key));
            found.push((AmazonS3ConfigKey::SecretAccessKey, secret));
            found.extend(named("aws_session_token").map(|token| (AmazonS3ConfigKey::Token, token)));
        }
    }
    if ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().all(|name| set(name).is_none()) {
        let region = value(&config, &profile, "region").or_else(|| value(&credentials, &profile, "region"));
        found.extend(region.map(|region| (AmazonS3ConfigKey::Region, region)));
    }
    found
}

/// Whether keys, or what they can be had for, are given somewhere.
pub(super) fn has_keys() -> bool {
    const GIVEN: [&str; 5] = [
        "AWS_ACCESS_KEY_ID",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_SKIP_SIGNATURE",
    ];
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    GIVEN.iter().any(|name| is_set(name)) || settings().iter().any(|(key, _)| *key == AmazonS3ConfigKey::AccessKeyId)
}

/// A value of a section, `[name]` or `[profile name]`.
fn value(text: &str, profile: &str, name: &str) -> Option<String> {
    let mut inside = false;
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let section = section.trim();
            inside = section == profile || section.strip_prefix("profile ").is_some_and(|rest| rest.trim() == profile);
        } else if inside
            && !line.starts_with(['#', ';'])
            && let Some((found, value)) = line.split_once('=')
            && found.trim() == name
        {
            return Some(value.trim().to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn values_of_a_profile() {
        let text =
            "[default]\nregion = eu-west-1\n[profile night]\n# region = x\nregion=us-east-2\naws_access_key_id = A\n";
        assert_eq!(value(text, "default", "region").as_deref(), Some("eu-west-1"));
        assert_eq!(value(text, "night", "region").as_deref(), Some("us-east-2"));
        assert_eq!(value(text, "default", "aws_access_key_id"), None);
    }
}
