//! What an unquoted scalar means, by YAML 1.2's core schema.

use super::Value;

/// The value of an unquoted scalar, or what is wrong with it.
pub fn plain(text: &str) -> Result<Value, String> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Value::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Value::Float(f64::NEG_INFINITY),
        ".nan" | ".NaN" | ".NAN" => Value::Float(f64::NAN),
        _ => return number(text),
    })
}

fn number(text: &str) -> Result<Value, String> {
    let too_large = || format!("the number {text} is too large");
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix)
            && !digits.is_empty()
            && digits.chars().all(|c| c.is_digit(radix))
        {
            return i64::from_str_radix(digits, radix).map(Value::Int).map_err(|_| too_large());
        }
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !unsigned.is_empty() && unsigned.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().map(Value::Int).map_err(|_| too_large());
    }
    if is_float(unsigned) {
        return match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Value::Float(value)),
            _ => Err(too_large()),
        };
    }
    Ok(Value::Text(text.to_owned()))
}

/// `( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?`, the core schema's float without its sign.
fn is_float(unsigned: &str) -> bool {
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mantissa_fits = digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty());
    let exponent_fits = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    mantissa_fits && exponent_fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_schema() {
        assert_eq!(plain("12"), Ok(Value::Int(12)));
        assert_eq!(plain("-0x1F"), Ok(Value::Text("-0x1F".into())));
        assert_eq!(plain("0x1F"), Ok(Value::Int(31)));
        assert_eq!(plain("1e-6"), Ok(Value::Float(1e-6)));
        assert_eq!(plain(".5"), Ok(Value::Float(0.5)));
        assert_eq!(plain("1."), Ok(Value::Float(1.0)));
        assert_eq!(plain("."), Ok(Value::Text(".".into())));
        assert_eq!(plain("1e"), Ok(Value::Text("1e".into())));
        assert_eq!(plain("yes"), Ok(Value::Text("yes".into())));
        assert_eq!(plain("~"), Ok(Value::Null));
        assert!(plain("99999999999999999999").is_err());
        assert!(plain("1e999").is_err());
    }
}
