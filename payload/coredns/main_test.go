package main

import (
	"slices"
	"testing"

	"github.com/coredns/caddy"
)

func TestEveryPluginOfTheOrderIsBuiltIn(t *testing.T) {
	for _, name := range order {
		if _, err := caddy.DirectiveAction("dns", name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A cached answer is late, and a plugin that only forwards would answer first.
func TestOurPluginsStandBeforeWhatRemembersAndWhatForwards(t *testing.T) {
	at := func(name string) int { return slices.Index(order, name) }
	for _, ours := range []string{"cluster", "mdns"} {
		for _, later := range []string{"cache", "template", "forward"} {
			if at(ours) < 0 || at(ours) > at(later) {
				t.Errorf("%s stands behind %s", ours, later)
			}
		}
	}
	if at("cluster") > at("mdns") {
		t.Error("what a neighbour says would stand above what the cluster knows")
	}
	if at("acl") < 0 || at("acl") > at("loadbalance") {
		t.Error("somebody who may not ask is answered")
	}
	if at("errors") > at("cluster") || at("bufsize") > at("forward") {
		t.Error("what watches comes after what answers")
	}
}
