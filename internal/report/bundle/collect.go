package bundle

import (
	"context"
	"sync"
)

// atOnce is the number of light items collected from one place at the same
// time. On a host where half of all commands hang, the other half should not
// wait.
const atOnce = 4

// collected is an item after its collection.
type collected struct {
	at    int // index into the items
	tail  bool
	entry Entry
	data  []byte
}

// lane is a place whose items are collected one at a time, or a few at a time.
type lane struct {
	from  string
	heavy bool
}

func (l lane) workers() int {
	if l.heavy {
		return 1
	}
	return atOnce
}

// collectAll collects items from all places in parallel. It closes the channel
// when every worker has ended, and begins no item after the context has ended.
func (m Maker) collectAll(ctx context.Context, items []Item) <-chan collected {
	lanes := map[lane][]int{}
	for i, item := range items {
		l := lane{item.From, item.Heavy}
		lanes[l] = append(lanes[l], i)
	}
	out := make(chan collected)
	var all sync.WaitGroup
	for l, queue := range lanes {
		next := make(chan int, len(queue))
		for _, i := range queue {
			next <- i
		}
		close(next)
		for range min(l.workers(), len(queue)) {
			all.Go(func() {
				for i := range next {
					if ctx.Err() != nil {
						return
					}
					e, data := m.collect(ctx, items[i])
					out <- collected{i, items[i].Tail, e, data}
				}
			})
		}
	}
	go func() {
		all.Wait()
		close(out)
	}()
	return out
}
