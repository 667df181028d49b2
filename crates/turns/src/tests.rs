use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use proptest::prelude::*;

use super::*;
use crate::queue::{Queue, SLOW, WorkLength};

type Asked = BoxFuture<'static, Turn>;

/// Asks for a slot of a caller, as `flow` or `flow/name`. Its place is that of its first poll.
fn ask(turns: &Turns, caller: &str, length: WorkLength) -> Asked {
    let (flow, name) = caller.split_once('/').unwrap_or((caller, ""));
    let (turns, caller) = (turns.clone(), Caller::new(flow, name));
    let mut asked = async move { turns.take(&caller, length).await }.boxed();
    match (&mut asked).now_or_never() {
        Some(turn) => std::future::ready(turn).fuse().boxed(),
        None => asked,
    }
}

fn short(turns: &Turns, caller: &str) -> Asked {
    ask(turns, caller, WorkLength::Short)
}

/// The turns that were given, and who waits still.
fn given(asked: Vec<Asked>) -> (Vec<Turn>, Vec<Asked>) {
    let (mut turns, mut waiting) = (Vec::new(), Vec::new());
    for mut one in asked {
        match (&mut one).now_or_never() {
            Some(turn) => turns.push(turn),
            None => waiting.push(one),
        }
    }
    (turns, waiting)
}

fn turn(asked: Asked) -> Turn {
    let (mut turns, _) = given(vec![asked]);
    turns.pop().expect("a turn")
}

#[test]
fn flows_take_turns_whatever_the_number_of_their_requests() {
    let turns = Turns::new(1);
    let held = turn(short(&turns, "first"));
    let many: Vec<Asked> = (0..5).map(|n| short(&turns, &format!("many/{n}"))).collect();
    let one = short(&turns, "one");
    drop(held);
    let (first, many) = given(many);
    assert_eq!((first.len(), many.len()), (1, 4));
    drop(first);
    drop(turn(one));
    let (second, many) = given(many);
    assert_eq!((second.len(), many.len()), (1, 3), "one came before the second one of many");
}

#[test]
fn callers_of_a_flow_take_turns() {
    let turns = Turns::new(1);
    let held = turn(short(&turns, "p/a"));
    let again = short(&turns, "p/a");
    let further = short(&turns, "p/a");
    let other = short(&turns, "p/b");
    drop(held);
    drop(turn(again));
    drop(turn(other));
    drop(turn(further));
}

#[test]
fn no_flow_holds_all_slots_and_no_caller_all_of_its_flow() {
    let turns = Turns::new(4);
    let (held, waiting) = given((0..4).map(|_| short(&turns, "p/a")).collect());
    assert_eq!((held.len(), waiting.len()), (2, 2));
    let (of_flow, _left) = given((0..3).map(|_| short(&turns, "p/b")).collect());
    assert_eq!(of_flow.len(), 1);
    drop(turn(short(&turns, "q/a")));
}

#[test]
fn long_work_leaves_one_slot_and_slow_callers_two() {
    let turns = Turns::new(4);
    let long = |caller: &str| ask(&turns, caller, WorkLength::Long);
    let (held, waiting) = given(["a", "b", "c", "d"].map(long).into());
    assert_eq!((held.len(), waiting.len()), (3, 1));
    held.iter().for_each(|turn| turn.took(true));
    drop(turn(short(&turns, "short")));
    drop((held, waiting));
    // Of those who are slow now, short work included, only two run at once.
    let (slow, mut waiting) = given(["a", "b", "c"].map(|caller| short(&turns, caller)).into());
    assert_eq!((slow.len(), waiting.len()), (2, 1));
    assert!(slow.iter().all(Turn::is_of_slow));
    let (others, _) = given(["x", "y"].map(|caller| short(&turns, caller)).into());
    assert_eq!(others.len(), 2);
    // One that was quick again is slow no more.
    slow[0].took(false);
    drop((slow, others));
    drop(turn(waiting.remove(0)));
    assert!(!turn(short(&turns, "a")).is_of_slow());
}

#[test]
fn one_that_does_not_wait_any_more_takes_no_turn() {
    let turns = Turns::new(1);
    let held = turn(short(&turns, "a"));
    let gone: Vec<Asked> = (0..10_000).map(|n| short(&turns, &format!("b/{n}"))).collect();
    let stays = short(&turns, "c");
    drop(gone);
    drop(held);
    drop(turn(stays));
    assert!(turns.0.lock().is_empty());
}

#[tokio::test]
async fn the_caller_is_that_of_the_task() {
    let of_app = Caller::new("project", "app");
    let found = on_behalf_of(of_app.clone(), async { current_caller() }).await;
    assert_eq!((found, current_caller()), (of_app, Caller::default()));
}

/// What happens to a queue.
#[derive(Clone, Copy, Debug)]
enum Event {
    Asks { flow: u8, name: u8, long: bool },
    Ends { which: usize, took_long: bool },
    IsGone { which: usize },
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..5_u8, 0..3_u8, any::<bool>())
            .prop_map(|(flow, name, long)| Event::Asks { flow, name, long }),
        3 => (any::<usize>(), any::<bool>())
            .prop_map(|(which, took_long)| Event::Ends { which, took_long }),
        1 => any::<usize>().prop_map(|which| Event::IsGone { which }),
    ]
}

/// One who waits.
struct Waiting {
    caller: Caller,
    length: WorkLength,
    gone: bool,
}

fn most(slots: usize, less: usize) -> usize {
    slots.saturating_sub(less).max(1)
}

proptest! {
    /// No limit is exceeded, no slot is kept from one who may have it, and nobody starves: while a
    /// flow that holds nothing waits, each other one gets one turn at most. With one slot for
    /// each, this bounds the wait of who asks for little by one turn of each other flow.
    #[test]
    fn nobody_starves(slots in 1..7_usize, events in prop::collection::vec(event(), 1..120)) {
        let now = Instant::now();
        let mut queue: Queue<usize> = Queue::new(slots);
        let mut waiting: BTreeMap<usize, Waiting> = BTreeMap::new();
        let mut running: Vec<(Caller, usize)> = Vec::new();
        let mut is_slow: BTreeMap<(String, String), bool> = BTreeMap::new();
        // The turns of other flows since a flow began to wait without a slot.
        let mut passed: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
        for (id, event) in events.into_iter().enumerate() {
            match event {
                Event::Asks { flow, name, long } => {
                    let caller = Caller::new(&format!("f{flow}"), &format!("n{name}"));
                    let length = if long { WorkLength::Long } else { WorkLength::Short };
                    queue.push(&caller, length, id);
                    waiting.insert(id, Waiting { caller, length, gone: false });
                }
                Event::Ends { which, took_long } if !running.is_empty() => {
                    let (caller, kind) = running.swap_remove(which % running.len());
                    queue.took(&caller, took_long, now);
                    is_slow.insert((caller.flow.to_string(), caller.name.to_string()), took_long);
                    queue.end(&caller, kind);
                }
                Event::IsGone { which } if !waiting.is_empty() => {
                    let nth = which % waiting.len();
                    if let Some(one) = waiting.values_mut().nth(nth) {
                        one.gone = true;
                    }
                }
                _ => {}
            }
            while let Some((id, caller, kind)) = queue.next(now, |id| waiting[id].gone) {
                let one = waiting.remove(&id).unwrap();
                prop_assert_eq!(&one.caller, &caller);
                prop_assert!(!one.gone);
                let slow = is_slow.get(&(caller.flow.to_string(), caller.name.to_string()));
                prop_assert_eq!(kind == SLOW, slow.copied().unwrap_or_default());
                running.push((caller.clone(), kind));
                let held = |flow: &str| running.iter().filter(|(c, _)| &*c.flow == flow).count();
                prop_assert!(running.len() <= slots);
                prop_assert!(held(&caller.flow) <= most(slots, 1));
                let own = running.iter().filter(|(other, _)| *other == caller).count();
                prop_assert!(own <= most(slots, 2));
                for kind in 0..3 {
                    let together = running.iter().filter(|(_, of)| *of >= kind).count();
                    prop_assert!(together <= most(slots, kind));
                }
                for flow in (0..5).map(|n| format!("f{n}")) {
                    let mut of_flow =
                        waiting.values().filter(|one| !one.gone && *one.caller.flow == *flow);
                    let waits = of_flow.clone().next().is_some() && held(&flow) == 0;
                    let is_plain = of_flow.all(|one| {
                        let caller = (flow.clone(), one.caller.name.to_string());
                        one.length == WorkLength::Short && !is_slow.get(&caller).copied().unwrap_or(false)
                    });
                    let passed_by: &mut BTreeMap<String, usize> =
                        passed.entry(flow.clone()).or_default();
                    if !waits || !is_plain {
                        passed_by.clear();
                        continue;
                    }
                    let times = passed_by.entry(caller.flow.to_string()).or_default();
                    *times += 1;
                    prop_assert!(*times <= 1, "{flow} waits for {} again", caller.flow);
                }
            }
            // Who waits still may not have a slot.
            if running.len() < slots {
                for one in waiting.values().filter(|one| !one.gone) {
                    let flow = running.iter().filter(|(c, _)| c.flow == one.caller.flow).count();
                    let own = running.iter().filter(|(c, _)| *c == one.caller).count();
                    let long = running.iter().filter(|(_, kind)| *kind >= 1).count();
                    let slow = running.iter().filter(|(_, kind)| *kind == SLOW).count();
                    prop_assert!(
                        flow >= most(slots, 1) || own >= most(slots, 2)
                            || long >= most(slots, 1) || slow >= most(slots, 2),
                        "a slot is kept from {:?}", one.caller
                    );
                }
            }
        }
        // All end, and all who wait get their turns.
        for _ in 0..1_000 {
            while let Some((id, caller, kind)) = queue.next(now, |id| waiting[id].gone) {
                waiting.remove(&id);
                running.push((caller, kind));
            }
            let Some((caller, kind)) = running.pop() else { break };
            queue.end(&caller, kind);
        }
        prop_assert!(waiting.values().all(|one| one.gone) && queue.is_empty());
    }
}

#[test]
fn a_slow_caller_is_slow_for_a_minute() {
    let now = Instant::now();
    let mut queue = Queue::new(4);
    let caller = Caller::new("p", "a");
    queue.took(&caller, true, now);
    for (after, kind) in [(59, SLOW), (61, 0)] {
        queue.push(&caller, WorkLength::Short, ());
        let next = queue.next(now + Duration::from_secs(after), |()| false).unwrap();
        assert_eq!(next.2, kind, "{after} s");
        queue.end(&caller, next.2);
    }
}
