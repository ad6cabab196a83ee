package redirect

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/apilb"
	"github.com/holdfast/holdfast/internal/testkit/netnstest"
)

// namespace creates a network namespace for a test.
func namespace(t *testing.T) (string, Table) {
	t.Helper()
	name := fmt.Sprintf("hflb-redirect-%d", os.Getpid())
	return name, Table{NetNS: int(netnstest.New(t, name))}
}

func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func nft(t *testing.T, ns, script string) string {
	t.Helper()
	return run(t, "ip", "netns", "exec", ns, "nft", script)
}

func to(vips ...string) apilb.Redirect {
	r := apilb.Redirect{Table: true}
	for _, v := range vips {
		r.VIPs = append(r.VIPs, netip.MustParseAddr(v))
	}
	return r
}

func set(t *testing.T, table Table, r apilb.Redirect, want bool) {
	t.Helper()
	changed, err := table.Set(r)
	if err != nil {
		t.Fatal(err)
	}
	if changed != want {
		t.Errorf("changed %v, want %v", changed, want)
	}
	if same, err := table.Matches(r); err != nil || !same {
		t.Errorf("what was written is not what is there: %v %v", same, err)
	}
}

func TestTheTableIsWhatARedirectSaysAndIsWrittenOnce(t *testing.T) {
	ns, table := namespace(t)
	set(t, table, to("10.98.0.5", "fd98::5"), true)
	set(t, table, to("10.98.0.5", "fd98::5"), false)
	got := nft(t, ns, "list table inet holdfast_api")
	want := `table inet holdfast_api {
	chain arriving {
		type nat hook prerouting priority dstnat - 10; policy accept;
		ct state established accept
		ip daddr 10.98.0.5 tcp dport 6443 fib daddr type local dnat ip to 10.98.0.5:9445
		ip6 daddr fd98::5 tcp dport 6443 fib daddr type local dnat ip6 to [fd98::5]:9445
	}

	chain own {
		type nat hook output priority -110; policy accept;
		ct state established accept
		ip daddr 10.98.0.5 tcp dport 6443 fib daddr type local dnat ip to 10.98.0.5:9445
		ip6 daddr fd98::5 tcp dport 6443 fib daddr type local dnat ip6 to [fd98::5]:9445
	}
}
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	set(t, table, to(), true)
	if got := nft(t, ns, "list table inet holdfast_api"); strings.Contains(got, "dnat") || !strings.Contains(got, "chain own") {
		t.Errorf("switched off, the chains must stay and do nothing:\n%s", got)
	}
	set(t, table, apilb.Redirect{}, true)
	set(t, table, apilb.Redirect{}, false)
	if got := nft(t, ns, "list ruleset"); strings.TrimSpace(got) != "" {
		t.Errorf("left behind:\n%s", got)
	}
}

// H4, H5: the table is compared by everything that it does, for both families.
func TestH4_H5_WhateverDiffersIsNoticedAndMended(t *testing.T) {
	ns, table := namespace(t)
	want := to("10.98.0.5", "fd98::5")
	for _, damage := range []string{
		"flush ruleset",
		"delete table inet holdfast_api",
		"flush chain inet holdfast_api own",
		"add rule inet holdfast_api arriving tcp dport 80 accept",
		"add chain inet holdfast_api more",
		"flush chain inet holdfast_api arriving; add rule inet holdfast_api arriving ip daddr 10.98.0.5 tcp dport 6443 fib daddr type local dnat ip to 10.98.0.5:9445",
		"flush chain inet holdfast_api own; " +
			"add rule inet holdfast_api own ip daddr 10.98.0.6 tcp dport 6443 fib daddr type local dnat ip to 10.98.0.6:9445; " +
			"add rule inet holdfast_api own ip6 daddr fd98::5 tcp dport 6443 fib daddr type local dnat ip6 to [fd98::5]:9445",
	} {
		set(t, table, want, true)
		nft(t, ns, damage)
		if same, err := table.Matches(want); err != nil || same {
			t.Errorf("%s: not noticed (%v)", damage, err)
		}
	}
	set(t, table, want, true)
	set(t, table, to("10.98.0.7", "fd98::5"), true)
}

// An administrator may list all rules into a file that is loaded at boot.
func TestNftReadsBackWhatItListed(t *testing.T) {
	ns, table := namespace(t)
	set(t, table, to("10.98.0.5", "fd98::5"), true)
	path := filepath.Join(t.TempDir(), "rules")
	if err := os.WriteFile(path, []byte("flush ruleset\n"+nft(t, ns, "list ruleset")), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "ip", "netns", "exec", ns, "nft", "-f", path)
	set(t, table, to("10.98.0.5", "fd98::5"), false)
}

func TestOtherTablesAreLeftAlone(t *testing.T) {
	ns, table := namespace(t)
	nft(t, ns, "add table inet firewalld; add chain inet firewalld own { type nat hook output priority -100; }")
	before := nft(t, ns, "list table inet firewalld")
	set(t, table, to("10.98.0.5"), true)
	set(t, table, apilb.Redirect{}, true)
	if after := nft(t, ns, "list ruleset"); after != before {
		t.Errorf("got\n%s\nwant\n%s", after, before)
	}
}

func TestTheWatchTellsOfOurTableOnly(t *testing.T) {
	ns, table := namespace(t)
	set(t, table, to("10.98.0.5"), true)
	ctx, cancel := context.WithCancel(t.Context())
	told, ended := make(chan struct{}, 100), make(chan error, 1)
	go func() { ended <- table.Watch(ctx, func() { told <- struct{}{} }) }()
	await := func(what string) {
		t.Helper()
		select {
		case <-told:
		case err := <-ended:
			t.Fatalf("%s: the watch ended: %v", what, err)
		case <-time.After(5 * time.Second):
			t.Fatalf("%s: not told", what)
		}
	}
	await("the start")
	nft(t, ns, "add table ip other; add chain ip other c; delete table ip other")
	nft(t, ns, "add chain inet holdfast_api more")
	await("a chain of ours")
	if len(told) != 0 {
		t.Error("told of another table")
	}
	nft(t, ns, "flush ruleset")
	await("a flush")
	cancel()
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
			return
		case <-told: // the flush is reported in parts
		case <-time.After(5 * time.Second):
			t.Fatal("the watch outlives its context")
		}
	}
}
