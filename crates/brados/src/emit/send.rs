//! Emits the sending of messages. Before a method writes anything, it checks that the object's
//! waiting messages would not become too many. It stores its messages together with its other
//! changes.

use super::encoding::quoted;
use super::method::MethodWriter;
use crate::delivery::REMOVE_OBJECT;
use crate::ir::CollectionId;
use crate::syntax::ast::Kind;

/// The header field that counts the messages of a channel, and the prefix of their keys.
struct Queue {
    field: usize,
    prefix: &'static str,
}

impl MethodWriter<'_> {
    /// The channels into which the method may send. The channel that removes the object comes last,
    /// so that all other messages of the request are sent before the removal.
    pub(super) fn channels_sent(&self) -> Vec<CollectionId> {
        let channels = self.program.of_kind(Kind::Channel);
        let mut sent: Vec<_> = channels.filter(|channel| self.is_pending(*channel)).collect();
        sent.sort_by_key(|channel| self.removes(*channel));
        sent
    }

    fn removes(&self, channel: CollectionId) -> bool {
        self.program.collection(channel).name == REMOVE_OBJECT
    }

    fn queue(&self, channel: CollectionId) -> Option<Queue> {
        let fields = self.layouts.stored.header.channels;
        let (field, prefix) = match self.program.collection(channel).is_delivered() {
            true => (fields.delivered, ">"),
            false => (fields.drained, "~"),
        };
        field.map(|field| Queue { field, prefix })
    }

    /// Emits the check that a request does not send more messages than may wait.
    pub(super) fn make_room(&mut self, channels: &[CollectionId]) {
        for prefix in ["~", ">"] {
            let own: Vec<_> = channels
                .iter()
                .filter_map(|channel| Some((*channel, self.queue(*channel)?)))
                .filter(|(_, queue)| queue.prefix == prefix)
                .collect();
            let Some((_, Queue { field, .. })) = own.first() else { continue };
            let counts: Vec<_> = own.iter().map(|(id, _)| self.count_of(*id)).collect();
            let room = self.runtime.need("room");
            self.out.put(format!("{room}(object, {field}, \"{prefix}\", {})", counts.join(" + ")));
        }
    }

    fn count_of(&self, channel: CollectionId) -> String {
        format!("{}.count", self.pending_name(channel))
    }

    /// Emits code by which a request that changes anything deletes an earlier message that would
    /// remove the object.
    pub(super) fn recall_removal(&mut self, tables: &[CollectionId], channels: &[CollectionId]) {
        let Some(removal) = self.layouts.stored.header.channels.removal else { return };
        let changed = tables.iter().map(|table| match self.only_change(*table) {
            Some(_) => self.pending_name(*table),
            None => format!("#{} > 0", self.changes_name(*table)),
        });
        let sent = channels.iter().map(|channel| format!("{} > 0", self.count_of(*channel)));
        let conditions: Vec<_> = changed.chain(sent).collect();
        if conditions.is_empty() {
            return;
        }
        let recall = self.runtime.need("recall");
        self.out.open(format!("if {} then", conditions.join(" or ")));
        self.out.put(format!("{recall}(object, {removal})"));
        self.out.close("end");
    }

    pub(super) fn send(&mut self, channel: CollectionId) {
        let Some(Queue { field, .. }) = self.queue(channel) else { return };
        let collection = self.program.collection(channel);
        self.out.line = self.lines.line(collection.span.start);
        let (width, shown) = (collection.width(), quoted(collection.name.as_bytes()));
        let messages = self.pending_name(channel);
        let encoder = self.row_encoder(channel);
        let removal = self.layouts.stored.header.channels.removal;
        let send = match removal.filter(|_| self.removes(channel)) {
            Some(removal) => {
                format!("{}(object, {field}, {removal}", self.runtime.need("post_removal"))
            }
            None if collection.is_delivered() => {
                format!("{}(object, {field}", self.runtime.need("post"))
            }
            None => format!("{}(object, {field}", self.runtime.need("send")),
        };
        self.out.put(format!("{send}, {messages}, {shown}, {width}, {encoder})"));
    }
}
