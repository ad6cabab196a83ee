package twonode

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// TestAHaltedEtcdHasLetItsDataGo: kubelet would start a second one on them.
func TestAHaltedEtcdHasLetItsDataGo(t *testing.T) {
	for sentence, c := range map[string]struct {
		stop error
		ends int // the look at which nobody holds the data, zero for never
		want string
	}{
		"it ends":                         {nil, 3, ""},
		"the keeper refuses":              {errors.New("etcd did not stop"), 1, "did not stop"},
		"an unknown process has the data": {nil, 0, "it still has the data"},
	} {
		s := withEtcd(t, pair)
		asked, looks := 0, 0
		s.Stop = func(context.Context) error { asked++; return c.stop }
		s.Sleep = func(context.Context, time.Duration) error {
			if looks++; looks == c.ends {
				s.put(fileLocks, "")
			}
			if looks > 10 {
				return errors.New("not within 1m0s")
			}
			return nil
		}
		err := s.HaltEtcd(t.Context())
		if asked != 1 || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: asked %d times, %v", sentence, asked, err)
		}
		if len(s.runs) > 0 {
			t.Errorf("%s: Pacemaker was told something: %v", sentence, s.runs)
		}
	}
}
