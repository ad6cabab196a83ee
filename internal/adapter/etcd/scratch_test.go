package etcd

import (
	"io"
	"path/filepath"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/holdfast/holdfast/internal/testkit/builttest"
)

// TestAnAlarmInTheDataIsTakenBack: an etcd that had no room keeps that in its data, and a
// restore of them would refuse the first write.
func TestAnAlarmInTheDataIsTakenBack(t *testing.T) {
	s := Scratch{Program: builttest.Program(t, "etcd"), DataDir: filepath.Join(t.TempDir(), "data"), Name: "x", PeerURL: "http://x.invalid:2380", Log: io.Discard}
	before, err := OpenScratch(t.Context(), s)
	must(t, err)
	_, err = pb.NewMaintenanceClient(before.conn).Alarm(t.Context(), &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_NOSPACE})
	must(t, err)
	must(t, before.Close())

	a, err := OpenScratch(t.Context(), s)
	must(t, err)
	defer func() { must(t, a.Close()) }()
	if err := a.Put(t.Context(), "/k", []byte("v")); err == nil {
		t.Error("the alarm is not in the data: this test shows nothing")
	}
	must(t, a.Disarm(t.Context()))
	must(t, a.Put(t.Context(), "/k", []byte("v")))
	must(t, a.Defragment(t.Context()))
	if _, err := a.Each(t.Context(), "/k", func(_ string, value []byte) error {
		if string(value) != "v" {
			t.Errorf("the key has %q", value)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
