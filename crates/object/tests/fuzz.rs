//! Names, as clients and people write them.

use nacre_fuzz::fuzz;
use nacre_object::{EntityName, ObjectId, ObjectName, PoolName};

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn fuzz_names() {
    let samples = ["data/a b/ü", "nacre.system/map/x", "data/log{tag}1", "local"];
    let samples = samples.map(|text| text.as_bytes().to_vec());
    fuzz(CRATE, "names", &samples, |input| {
        let Ok(text) = std::str::from_utf8(input) else { return false };
        if let Ok(id) = text.parse::<ObjectId>() {
            assert_eq!(id.to_string(), text);
        }
        if let Ok(name) = ObjectName::new(text) {
            assert!(!name.placement_key().is_empty());
        }
        PoolName::new(text).is_ok() | EntityName::new(text).is_ok() | ObjectName::new(text).is_ok()
    });
}
