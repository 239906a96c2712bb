//! Copies a whole object into another one: bytes, attributes, header and entries of the map.
//!
//! The parts are read between two `stat`s. If both show the same, the parts belong to one state of the
//! object. The caller lets nothing else change the object meanwhile, so they differ only if a client
//! reaches RADOS without a gateway.
//!
//! **Invariant:** the copy has nothing of what was in its place before.

use bytes::Bytes;
use nacre_object::limits::{
    MAX_MAP_RANGE_ENTRIES, MAX_REPLY_BYTES, MAX_REQUEST_BYTES, MAX_SNAPSHOT_ENTRIES,
};
use nacre_object::{
    Error, ErrorKind, IoHeader, MapRange, ObjectId, ObjectStat, Op, OpResult, Result, Stack, Store,
};

use super::in_copies::with_ops_on;

/// The most bytes that are read and written at once.
const PIECE_BYTES: u64 = 4 << 20;
/// How often an object is copied that changes meanwhile.
const ATTEMPTS: usize = 3;

const _: () = assert!(PIECE_BYTES <= MAX_REPLY_BYTES as u64);
const _: () = assert!(PIECE_BYTES <= MAX_REQUEST_BYTES as u64);

/// A copy in the making.
pub(super) struct ObjectCopy<'a> {
    /// Where the object is.
    pub from: &'a Stack,
    /// Where the copy goes.
    pub store: &'a Stack,
    /// That of the request because of which the object is copied, so also of its client.
    pub header: &'a IoHeader,
    pub to: &'a ObjectId,
}

impl ObjectCopy<'_> {
    /// Makes the copy. Returns the `stat` of the copied object; `None` if there is no object.
    ///
    /// # Errors
    /// The errors of the store; `Conflict` if the object changes meanwhile.
    pub async fn make(&self) -> Result<Option<ObjectStat>> {
        for _ in 0..ATTEMPTS {
            let Some(before) = self.stat().await? else { return Ok(None) };
            let copied = self.copy_all(before.size).await;
            if self.stat().await? == Some(before) {
                return copied.map(|()| Some(before));
            }
        }
        Err(Error::conflict("the object changes while its state is kept for a snapshot")
            .on(&self.header.object)
            .hint("write to it through nacre only, and not past the gateways"))
    }

    async fn copy_all(&self, size: u64) -> Result<()> {
        self.make_empty(size).await?;
        self.copy_header().await?;
        self.copy_entries().await?;
        self.copy_bytes(size).await
    }

    /// Asks for something of the object. Returns `None` if there is no object.
    async fn ask(&self, op: Op) -> Result<Option<OpResult>> {
        let request = with_ops_on(self.header.object.clone(), self.header, vec![op])?;
        match self.from.submit(request).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            reply => Ok(reply?.results.into_iter().next()),
        }
    }

    async fn stat(&self) -> Result<Option<ObjectStat>> {
        match self.ask(Op::Stat).await? {
            Some(OpResult::Stat(stat)) => Ok(Some(stat)),
            None => Ok(None),
            Some(_) => Err(self.senseless("a stat")),
        }
    }

    async fn put(&self, ops: Vec<Op>) -> Result<()> {
        self.store.submit(with_ops_on(self.to.clone(), self.header, ops)?).await.map(drop)
    }

    /// Makes the copy anew, with the attributes and the size of the object, and nothing else.
    async fn make_empty(&self, size: u64) -> Result<()> {
        match self.put(vec![Op::Remove]).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed?,
        }
        let Some(OpResult::Attributes(attributes)) = self.ask(Op::GetAttributes).await? else {
            return Err(self.senseless("attributes"));
        };
        let set = |(name, value)| Op::SetAttribute { name, value };
        let first = [Op::Create { exclusive: false }, Op::Truncate { size }];
        self.put(first.into_iter().chain(attributes.into_iter().map(set)).collect()).await
    }

    async fn copy_header(&self) -> Result<()> {
        match self.ask(Op::MapGetHeader).await? {
            Some(OpResult::Data(value)) if value.is_empty() => Ok(()),
            Some(OpResult::Data(value)) => self.put(vec![Op::MapSetHeader { value }]).await,
            _ => Err(self.senseless("a header")),
        }
    }

    async fn copy_entries(&self) -> Result<()> {
        let (mut after, mut count) = (Bytes::new(), 0);
        loop {
            let (prefix, limit) = (Bytes::new(), MAX_MAP_RANGE_ENTRIES as u32);
            let range = self.ask(Op::MapRange { after, prefix, limit }).await?;
            let Some(OpResult::Range(MapRange { entries, more })) = range else {
                return Err(self.senseless("entries"));
            };
            let Some(last) = entries.last().map(|entry| entry.key.clone()) else { return Ok(()) };
            count += entries.len();
            if count > MAX_SNAPSHOT_ENTRIES {
                let text = format!("it has more than {MAX_SNAPSHOT_ENTRIES} keys");
                return Err(Error::exhausted(text).on(&self.header.object));
            }
            self.put(vec![Op::MapSet { entries }]).await?;
            if !more {
                return Ok(());
            }
            after = last;
        }
    }

    /// Copies the byte stream. The copy has its size already, so zeros need not be written.
    async fn copy_bytes(&self, size: u64) -> Result<()> {
        let mut offset = 0;
        while offset < size {
            let length = PIECE_BYTES.min(size - offset);
            let data = match self.ask(Op::Read { offset, length }).await? {
                Some(OpResult::Data(data)) if data.len() as u64 == length => data,
                _ => return Err(self.senseless("all bytes")),
            };
            if data.iter().any(|byte| *byte != 0) {
                self.put(vec![Op::Write { offset, data }]).await?;
            }
            offset += length;
        }
        Ok(())
    }

    /// The error of a reply that lacks something. If the object has changed meanwhile, nobody sees it.
    fn senseless(&self, what: &str) -> Error {
        Error::corrupt(format!("the object is there, but the reply to a read of it lacks {what}"))
            .on(&self.header.object)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::{BoxFuture, FutureExt};
    use nacre_clock::ManualClock;
    use nacre_conformance::{MemoryStore, TestClasses};
    use nacre_object::{Layer, MapEntry, Reply, Request};

    use super::*;

    fn memory() -> Stack {
        Stack::new(MemoryStore::new(Arc::new(TestClasses), Arc::new(ManualClock::default())))
    }

    async fn ask(store: &Stack, object: &str, ops: Vec<Op>) -> Result<Vec<OpResult>> {
        let request = Request::new(object.parse().unwrap(), ops).unwrap();
        Ok(store.submit(request).await?.results)
    }

    async fn copy(store: &Stack) -> Result<Option<ObjectStat>> {
        let header = Request::new("data/a".parse().unwrap(), vec![Op::Stat]).unwrap().header;
        let to = "data/copy".parse().unwrap();
        ObjectCopy { from: store, store, header: &header, to: &to }.make().await
    }

    /// Everything in an object but its version and time.
    async fn content(store: &Stack, object: &str) -> Vec<OpResult> {
        let mut all = vec![];
        for offset in (0..9).map(|piece| piece << 20) {
            let read = Op::Read { offset, length: 1 << 20 };
            all.extend(ask(store, object, vec![read]).await.unwrap());
        }
        all.extend(ask(store, object, vec![Op::GetAttributes, Op::MapGetHeader]).await.unwrap());
        for prefix in ["", "key-4"] {
            let prefix = Bytes::from_static(prefix.as_bytes());
            let op = Op::MapRange { after: Bytes::new(), prefix, limit: 4096 };
            all.extend(ask(store, object, vec![op]).await.unwrap());
        }
        all
    }

    async fn fill(store: &Stack) {
        let attribute = |name: &str| Op::SetAttribute {
            name: name.to_owned(),
            value: Bytes::from(format!("value of {name}")),
        };
        let ops = vec![
            Op::Write { offset: 10, data: Bytes::from_static(b"first") },
            Op::Write { offset: (6 << 20) - 2, data: Bytes::from_static(b"between pieces") },
            Op::Truncate { size: (8 << 20) + 5 },
            attribute("owner"),
            attribute("kind"),
            Op::MapSetHeader { value: Bytes::from_static(b"header") },
        ];
        ask(store, "data/a", ops).await.unwrap();
        for keys in [0..3000, 3000..5000] {
            let entry = |number: u32| MapEntry {
                key: Bytes::from(format!("key-{number:04}")),
                value: Bytes::from(number.to_string()),
            };
            let entries = keys.map(entry).collect();
            ask(store, "data/a", vec![Op::MapSet { entries }]).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_copy_has_all_of_the_object_and_nothing_of_a_former_copy() {
        let store = memory();
        assert_eq!(copy(&store).await.unwrap(), None, "there is no object");
        fill(&store).await;
        let before = vec![
            Op::WriteFull { data: Bytes::from(vec![7; 5 << 20]) },
            Op::SetAttribute { name: "former".to_owned(), value: Bytes::new() },
            Op::MapSet { entries: vec![MapEntry { key: "key-x".into(), value: Bytes::new() }] },
        ];
        ask(&store, "data/copy", before).await.unwrap();
        let stat = copy(&store).await.unwrap().unwrap();
        assert_eq!(stat.size, (8 << 20) + 5);
        let original = content(&store, "data/a").await;
        assert_eq!(content(&store, "data/copy").await, original);
        // The object stays as it was.
        assert_eq!(copy(&store).await.unwrap(), Some(stat));

        // An object without anything.
        ask(&store, "data/a", vec![Op::Remove]).await.unwrap();
        ask(&store, "data/a", vec![Op::Create { exclusive: true }]).await.unwrap();
        assert_eq!(copy(&store).await.unwrap().unwrap().size, 0);
        assert_eq!(content(&store, "data/copy").await, content(&store, "data/a").await);
    }

    /// A store in which somebody else changes the object when it is read, the first times.
    #[derive(Debug)]
    struct Meddling {
        next: Stack,
        left: Arc<AtomicUsize>,
        with: Op,
    }

    impl Layer for Meddling {
        fn next(&self) -> &Stack {
            &self.next
        }

        fn submit(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
            async move {
                let reads = matches!(request.ops[..], [Op::MapGetHeader]);
                let meddle = |left: usize| left.checked_sub(1).filter(|_| reads);
                let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, meddle);
                if left.is_ok() {
                    // It may be removed already.
                    let _ = ask(&self.next, "data/a", vec![self.with.clone()]).await;
                }
                self.next.submit(request).await
            }
            .boxed()
        }
    }

    #[tokio::test]
    async fn an_object_that_changes_meanwhile_is_copied_again_or_not_at_all() {
        let meddling = |times: usize, with: Op| {
            let left = Arc::new(AtomicUsize::new(times));
            memory().wrapped_by(|next| Meddling { next, left, with })
        };
        let write = || Op::Write { offset: 0, data: Bytes::from_static(b"new") };
        let store = meddling(1, write());
        fill(&store).await;
        copy(&store).await.unwrap().unwrap();
        assert_eq!(content(&store, "data/copy").await, content(&store, "data/a").await);

        let store = meddling(ATTEMPTS, write());
        fill(&store).await;
        assert_eq!(copy(&store).await.unwrap_err().kind(), ErrorKind::Conflict);

        let store = meddling(1, Op::Remove);
        fill(&store).await;
        assert_eq!(copy(&store).await.unwrap(), None, "it was removed meanwhile");
    }
}
