package agent

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/model/backup"
)

// TestARunThatOnlyRemovesAsksEtcdNothing: etcd may be down for the very disk on which the run makes room.
func TestARunThatOnlyRemovesAsksEtcdNothing(t *testing.T) {
	down := errors.New("etcd is down")
	asked := 0
	open := func(context.Context) (*etcd.Client, error) { asked++; return nil, down }
	if client, closes, err := etcdFor(t.Context(), backup.Request{Remove: []string{"x"}}, open); client != nil || err != nil || asked > 0 {
		t.Errorf("%v, %v, asked %d times", client, err, asked)
	} else {
		closes()
	}
	if client, _, err := etcdFor(t.Context(), backup.Request{ID: "x"}, open); client != nil || !errors.Is(err, down) {
		t.Errorf("one that takes or sends a backup: %v, %v", client, err)
	}
}

func TestARunSaysWhatItDid(t *testing.T) {
	for want, req := range map[string]backup.Request{
		"took backup x":                              {ID: "x", Remove: []string{"y"}},
		"removed backups that are not kept any":      {Remove: []string{"y"}},
		"removed what a run that was cut off left\n": {},
	} {
		var out bytes.Buffer
		if err := tellBackup(command.Streams{Out: &out}, req, backup.State{}); err != nil || !strings.HasPrefix(out.String(), want) {
			t.Errorf("%q, want %q: %v", out.String(), want, err)
		}
	}
}
