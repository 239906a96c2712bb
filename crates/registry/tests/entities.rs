//! Entities: who is let in first.

mod common;

use common::{NOW_MICROS, maps, store};
use nacre_object::{EntityName, ErrorKind, FINGERPRINT_BYTES, NodeName, Standing};
use nacre_registry::{CallRules, Entities, LiveEntities, Need};

#[tokio::test]
async fn the_first_administrator_is_added_only_once() {
    let entities = Entities::new(maps(&store()));
    let admin = EntityName::new("admin").unwrap();
    let (first, second) = ([1; FINGERPRINT_BYTES], [2; FINGERPRINT_BYTES]);
    assert!(entities.found(&admin, first, NOW_MICROS).await.unwrap());
    assert!(entities.found(&admin, first, NOW_MICROS).await.unwrap(), "it was and is");
    // As two folders of one Ceph cluster have it, each with keys of its own.
    assert!(!entities.found(&admin, second, NOW_MICROS).await.unwrap());
    let known = entities.list().await.unwrap();
    assert_eq!((known.len(), known[0].1.fingerprint), (1, first));
    entities.revoke(&admin).await.unwrap();
    assert!(!entities.found(&admin, first, NOW_MICROS).await.unwrap(), "revoked is revoked");
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_an_epoch_that_never_comes_ends_with_an_error() {
    let maps = maps(&store());
    let live = LiveEntities::follow(&maps, NodeName::new("a").unwrap(), CallRules::default());
    assert_eq!(live.reached(0).await.unwrap(), 0);
    let admin = EntityName::new("admin").unwrap();
    let entities = Entities::new(maps);
    assert!(entities.found(&admin, [1; FINGERPRINT_BYTES], NOW_MICROS).await.unwrap());
    assert_eq!(live.reached(1).await.unwrap(), 1);
    assert_eq!(live.reached(u64::MAX).await.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn a_session_ends_once_its_entity_has_another_certificate() {
    let maps = maps(&store());
    let live = LiveEntities::follow(&maps, NodeName::new("a").unwrap(), CallRules::default());
    let admin = EntityName::new("admin").unwrap();
    let entities = Entities::new(maps);
    assert!(entities.found(&admin, [1; FINGERPRINT_BYTES], NOW_MICROS).await.unwrap());
    live.reached(1).await.unwrap();
    let standing = live.admit(&admin, &[1; FINGERPRINT_BYTES]).await.unwrap();
    assert!(standing.require(Need::Admin).is_ok());
    // As a node sees it that was away while one was revoked and the other added.
    let replaced = entities.change(&admin, |entity| {
        entity.fingerprint = [2; FINGERPRINT_BYTES];
        Ok(())
    });
    live.reached(replaced.await.unwrap()).await.unwrap();
    assert_eq!(standing.require(Need::Admin).unwrap_err().kind(), ErrorKind::Denied);
    standing.ended().await;
}
