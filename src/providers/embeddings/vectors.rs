//! Vectors of an answer: read number by number, and refused where one is not as asked. Pure.

use crate::providers::contract::accumulate::broken;
use crate::providers::contract::traits::ProviderError;
use serde_json::Value;

/// Longest vector; the longest of known models has 4,096 numbers.
const DIMENSIONS_MAX: usize = 16_384;

/// Reads one vector. Errors: it is no list of numbers that an `f32` can hold.
pub(super) fn numbers(value: Option<&Value>) -> Result<Vec<f32>, ProviderError> {
    let list = value.and_then(Value::as_array);
    let list = list.ok_or_else(|| broken("a vector is not a list of numbers"))?;
    let number = |value: &Value| {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "what is out of range becomes infinite, and is refused"
        )]
        let number = value.as_f64().map(|number| number as f32);
        number.filter(|number| number.is_finite()).ok_or_else(|| {
            broken(format!(
                "a vector has `{value}` in place of a finite number"
            ))
        })
    };
    list.iter().map(number).collect()
}

/// Checks that all vectors have one length, that of the configuration if it names one, and gives each the length 1.
pub(super) fn checked(
    mut vectors: Vec<Vec<f32>>,
    dimensions: Option<u32>,
) -> Result<Vec<Vec<f32>>, ProviderError> {
    let first = vectors.first().map_or(0, Vec::len);
    let wanted = dimensions.map_or(first, |wanted| {
        usize::try_from(wanted).unwrap_or(usize::MAX)
    });
    for vector in &mut vectors {
        let found = vector.len();
        if found != wanted {
            return Err(broken(format!(
                "a vector has {found} numbers, and {wanted} were expected"
            )));
        }
        if found == 0 || found > DIMENSIONS_MAX {
            return Err(broken(format!(
                "a vector has {found} numbers; 1 to {DIMENSIONS_MAX} can be kept"
            )));
        }
        let length = vector.iter().map(|n| f64::from(*n).powi(2)).sum::<f64>();
        let length = length.sqrt();
        if length <= f64::from(f32::MIN_POSITIVE) {
            return Err(broken("a vector has no length: all its numbers are zero"));
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a number of a vector of length 1 is not above 1"
        )]
        vector
            .iter_mut()
            .for_each(|n| *n = (f64::from(*n) / length) as f32);
    }
    Ok(vectors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn vectors_get_the_length_one() {
        let checked = checked(vec![vec![3.0, 4.0], vec![-2.0, 0.0]], None).expect("sound");
        assert_eq!(checked, [vec![0.6, 0.8], vec![-1.0, 0.0]]);
    }

    #[test]
    fn what_is_no_vector_is_refused() {
        let refused = |vectors: Vec<Vec<f32>>, dimensions| {
            checked(vectors, dimensions)
                .expect_err("refused")
                .to_string()
        };
        assert!(refused(vec![vec![1.0], vec![1.0, 2.0]], None).contains("2 numbers, and 1"));
        assert!(refused(vec![vec![1.0, 2.0]], Some(3)).contains("2 numbers, and 3"));
        assert!(refused(vec![vec![]], None).contains("0 numbers"));
        assert!(refused(vec![vec![0.0, 0.0]], None).contains("zero"));
        for value in [
            json!([1, "2"]),
            json!([1e300]),
            json!([null]),
            json!("AAAA"),
        ] {
            assert!(numbers(Some(&value)).is_err(), "{value}");
        }
        assert_eq!(numbers(Some(&json!([1, -0.5]))), Ok(vec![1.0, -0.5]));
    }
}
