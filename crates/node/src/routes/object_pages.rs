//! Lists the objects of a node that a rule is about, page by page.

use nacre_object::{ListRequest, ObjectId, ObjectName, PoolName, Result, Store};
use nacre_route::ObjectMatch;

use super::NodeSwitch;

/// Objects of one page.
const PAGE_NAMES: usize = 256;

/// The pool of objects, and what their names begin with.
fn prefix_of(objects: &ObjectMatch) -> Option<(PoolName, String)> {
    let text = match objects {
        ObjectMatch::Exact(object) => object.to_string(),
        ObjectMatch::Prefix(prefix) => prefix.clone(),
        ObjectMatch::Pattern(pattern) => pattern.literal_prefix().to_owned(),
    };
    let (pool, prefix) = text.split_once('/')?;
    Some((PoolName::new(pool).ok()?, prefix.to_owned()))
}

impl NodeSwitch {
    /// A page of the node's objects, and where the next page begins; `None` after the last page.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) async fn page_of(
        &self,
        objects: &ObjectMatch,
        after: Option<ObjectName>,
    ) -> Result<(Vec<ObjectId>, Option<ObjectName>)> {
        let Some((pool, prefix)) = prefix_of(objects) else { return Ok((vec![], None)) };
        let request = ListRequest { pool: pool.clone(), after, prefix, limit: PAGE_NAMES };
        let listed = self.base().list(request).await?;
        let next = listed.names.last().filter(|_| listed.more).cloned();
        let all = listed.names.into_iter().map(|name| ObjectId::new(pool.clone(), name));
        Ok((all.filter(|object| objects.matches(object)).collect(), next))
    }
}
