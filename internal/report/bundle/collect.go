package bundle

import (
	"context"
	"sync"
)

// atOnce is how many light things are collected from one place at a time: of a
// host on which half of all commands hang the other half should not wait.
const atOnce = 4

// collected is an item that was.
type collected struct {
	at    int // of the items
	tail  bool
	entry Entry
	data  []byte
}

// lane is a place of which things are collected one after the other, or a few at
// a time.
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

// collectAll collects items, from all places at a time. The channel is closed
// when every worker has ended; no more is begun once the context has.
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
