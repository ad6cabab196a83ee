// Package chaos_test plays random faults on a site of the present release; hack/test chaos
// calls it.
package chaos_test

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast/holdfast/test/chaos"
	"github.com/holdfast/holdfast/test/labsite"
)

var (
	labName   = flag.String("lab", "", "the lab to break; it is brought up if need be. Without a name nothing runs")
	keep      = flag.Bool("keep", false, "leave the lab up at the end")
	program   = flag.String("holdfast", "../../_output/bin/holdfast", "the holdfast program")
	workers   = flag.Int("workers", 0, "workers of the lab: 0 or 1")
	postDelay = flag.Duration("post-delay", 5*time.Second, "duration of the power-on self-test of a host in a new lab")
	seed      = flag.Uint64("seed", 1, "the seed of the faults")
	first     = flag.Int("first", 0, "the first round to play; with -rounds, how many: a round that failed is played again by its number")
	rounds    = flag.Int("rounds", 0, "how many rounds; 0 for as many as -minutes hold")
	minutes   = flag.Int("minutes", 10, "for how long rounds are begun")
	outage    = flag.Duration("outage", 30*time.Second, "how long nobody may be able to write at the API VIP while a single fault of one host is held; 0 to report it alone")
	wholeIn   = flag.Duration("whole", 3*time.Minute, "how long the site may take to be whole again after the last mend, without a person")
	output    = flag.String("output", "../../_output/chaos", "where results and artefacts go")
)

func TestRandomFaults(t *testing.T) {
	if *labName == "" {
		t.Skip("sites are broken at random by 'hack/test chaos'")
	}
	c := open(t)
	defer func() { t.Log(c.Summary()) }()
	for n, began := *first, time.Now(); more(n, began); n++ {
		if !t.Run(fmt.Sprint(n), func(t *testing.T) { c.Round(t, n) }) && c.Whole(t.Context()) != nil {
			t.Fatalf("the site is not whole after round %d: no other is played", n)
		}
	}
}

func more(n int, began time.Time) bool {
	if *rounds > 0 {
		return n < *first+*rounds
	}
	return time.Since(began) < time.Duration(*minutes)*time.Minute
}

func open(t *testing.T) *chaos.Chaos {
	t.Helper()
	up := []string{"--control-planes=2", fmt.Sprintf("--workers=%d", *workers), "--post-delay=" + postDelay.String()}
	s, err := labsite.Open(t.Context(), labsite.Options{Name: *labName, Program: *program, Up: up})
	if err != nil {
		t.Fatal(err)
	}
	if !*keep {
		t.Cleanup(func() {
			if err := s.Down(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	c, err := chaos.New(s, chaos.Options{
		Seed: *seed, Outage: *outage, WholeIn: *wholeIn, Output: *output, Again: "hack/test chaos SEED=%d FIRST=%d ROUNDS=1",
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
