//! Properties that hold for any order of service, built in or not.

mod scheduling;

use nacre_qos::IoKind;
use nacre_qos::limits::MAX_OFFERED_TENANTS;
use nacre_qos::scheduler::{NewRequest, Next, ServiceOrder, Waiting, Work};
use scheduling::{device, enqueue, ms, promised, read_of, weighted};

/// An order of service that calls a function, and records the lists that it was offered.
struct By<F>(F, Vec<Vec<Waiting>>);

impl<F: FnMut(&[Waiting]) -> Option<usize>> ServiceOrder for By<F> {
    fn choose(&mut self, waiting: &[Waiting]) -> Option<usize> {
        self.1.push(waiting.to_vec());
        (self.0)(waiting)
    }
}

#[test]
fn a_service_order_is_not_asked_if_it_has_no_choice() {
    let mut scheduler = device(1);
    let only = weighted(&mut scheduler, 1.0);
    let mut order = By(|_: &[Waiting]| panic!("there is no choice"), vec![]);
    assert_eq!(scheduler.next_by(&mut order, ms(0)), Next::Nothing { deadline: None });
    enqueue(&mut scheduler, only, 0.01, ms(0));
    assert!(matches!(scheduler.next_by(&mut order, ms(0)), Next::Send(_)));
    // The device has no room for anybody.
    let other = weighted(&mut scheduler, 1.0);
    enqueue(&mut scheduler, only, 0.01, ms(0));
    enqueue(&mut scheduler, other, 0.01, ms(0));
    assert_eq!(scheduler.next_by(&mut order, ms(0)), Next::Nothing { deadline: None });
}

#[test]
fn a_chosen_request_without_room_waits_only_while_the_device_is_busy() {
    let mut scheduler = device(1);
    let (reader, writer) = (weighted(&mut scheduler, 1.0), weighted(&mut scheduler, 1.0));
    let gold = promised(&mut scheduler, 0, &[(0.5, 1.0)]);
    let work = Work::seconds(0.01).unwrap();
    let write = NewRequest { tenant: writer, kind: IoKind::Write, bytes: 1, work, deadline: None };
    enqueue(&mut scheduler, reader, 0.01, ms(0));
    let mut order =
        By(|waiting: &[Waiting]| waiting.iter().position(|waiting| waiting.tenant == gold), vec![]);
    let Next::Send(first) = scheduler.next_by(&mut order, ms(0)) else { panic!("nothing is sent") };
    enqueue(&mut scheduler, gold, 0.01, ms(0));
    scheduler.enqueue(write, ms(0)).unwrap();
    // The order chooses a read, but the device has room only for a write.
    assert_eq!(scheduler.next_by(&mut order, ms(0)), Next::Nothing { deadline: None });
    assert!(scheduler.complete(first.request, None, ms(1)));
    let Next::Send(second) = scheduler.next_by(&mut order, ms(1)) else { panic!("it idles") };
    assert_eq!((second.tenant, second.is_within), (gold, true));
}

#[test]
fn an_answer_that_names_no_tenant_leaves_the_decision_to_the_built_in_order() {
    for answer in [None, Some(9)] {
        let mut scheduler = device(1);
        let bulk = weighted(&mut scheduler, 1.0);
        let gold = promised(&mut scheduler, 0, &[(0.5, 1.0)]);
        enqueue(&mut scheduler, bulk, 0.01, ms(0));
        enqueue(&mut scheduler, gold, 0.01, ms(0));
        let mut order = By(|_: &[Waiting]| answer, vec![]);
        let Next::Send(sent) = scheduler.next_by(&mut order, ms(0)) else { panic!("nothing") };
        assert_eq!(sent.tenant, gold);
    }
}

#[test]
fn token_buckets_are_charged_by_any_order_of_service() {
    let mut scheduler = device(4);
    let gold = promised(&mut scheduler, 0, &[(0.5, 0.1)]);
    let bulk = weighted(&mut scheduler, 1.0);
    for _ in 0..3 {
        enqueue(&mut scheduler, gold, 0.04, ms(0));
        enqueue(&mut scheduler, bulk, 0.04, ms(0));
    }
    let mut order =
        By(|waiting: &[Waiting]| waiting.iter().position(|waiting| waiting.tenant == gold), vec![]);
    let mut within = vec![];
    for _ in 0..3 {
        let Next::Send(sent) = scheduler.next_by(&mut order, ms(0)) else { panic!("nothing") };
        assert_eq!(sent.tenant, gold);
        within.push(sent.is_within);
    }
    assert_eq!(within, [true, true, false], "the bucket covers two");
    let first = &order.1[0].iter().find(|waiting| waiting.tenant == gold).unwrap();
    assert_eq!((first.priority, first.work_seconds, first.has_room), (Some(0), Some(0.04), true));
}

#[test]
fn an_order_is_offered_the_tenants_that_the_built_in_order_serves_first() {
    let mut scheduler = device(1);
    for _ in 0..MAX_OFFERED_TENANTS {
        let bulk = weighted(&mut scheduler, 1.0);
        scheduler.enqueue(read_of(bulk, 0.01), ms(0)).unwrap();
    }
    let gold = promised(&mut scheduler, 0, &[(0.5, 0.1)]);
    enqueue(&mut scheduler, gold, 0.01, ms(0));
    let mut order = By(|_: &[Waiting]| Some(0), vec![]);
    let Next::Send(sent) = scheduler.next_by(&mut order, ms(0)) else { panic!("nothing") };
    assert_eq!(sent.tenant, gold);
    assert_eq!(order.1[0].len(), MAX_OFFERED_TENANTS);
}
