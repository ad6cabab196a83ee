package etcd

import (
	"strings"
	"testing"
)

// FuzzReadPeerMembers lets an etcd's peer port return any list.
func FuzzReadPeerMembers(f *testing.F) {
	for _, seed := range []string{`[{"id":1,"name":"cp-1"},{"id":2,"isLearner":true}]`, `[]`, `{}`, `null`, `[{"id":-1}]`, ``} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if members, err := readPeerMembers(strings.NewReader(text)); err != nil && members != nil {
			t.Errorf("%q: %v and %v", text, members, err)
		}
	})
}
