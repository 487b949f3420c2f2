//! Which columns are called as what identifies rows.

/// What pandas calls an index without a name in Parquet files, with a number behind it.
pub const PANDAS_INDEX: &str = "__index_level_";

/// `id`, `row_id`, `customerId`, `key`, `uuid`, …
pub fn is_called_key(name: &str) -> bool {
    let mut words: Vec<String> = vec![String::new()];
    let mut before = ' ';
    for c in name.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && before.is_lowercase()) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
        before = c;
    }
    words.iter().any(|word| ["id", "key", "uuid", "guid", "rowid", "index"].contains(&word.as_str()))
        || name.starts_with(PANDAS_INDEX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_keys() {
        for key in ["id", "ID", "row_id", "customerId", "order key", "UUID", "__index_level_0__", "id_1"] {
            assert!(is_called_key(key), "{key}");
        }
        for other in ["width", "idle", "keys_pressed", "monkey", "humidity", "indexed", "x"] {
            assert!(!is_called_key(other), "{other}");
        }
    }
}
