package configserver

import (
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/install/apply"
	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestAHostWithAPointerGetsItsRole combines the three parts: the installer's
// pointer, the host's fetching, and this server.
func TestAHostWithAPointerGetsItsRole(t *testing.T) {
	s := newSite(t, nil)
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	tests := []struct {
		role, token state.Role
		want        string
	}{
		{state.RoleWorker, state.RoleWorker, "worker"},
		{state.RoleMaster, state.RoleMaster, "master"},
		{state.RoleMaster, state.RoleWorker, "!403: the join token is for another role"},
	}
	for _, tt := range tests {
		pointer, err := ignition.Pointer(s.URL+"/config/"+string(tt.role), ca, token(t, tt.token))
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := ignition.Parse(pointer)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err = (&apply.Fetcher{Now: func() time.Time { return start }}).Resolve(t.Context(), cfg)
		if want, refused := strings.CutPrefix(tt.want, "!"); refused {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v", tt, err)
			}
			continue
		}
		if err != nil || len(cfg.Storage.Files) != 2 {
			t.Fatalf("%+v: %+v, %v", tt, cfg, err)
		}
		if got, err := ignition.Contents(cfg.Storage.Files[0].Contents); err != nil || string(got) != tt.want {
			t.Errorf("%+v: %s, %v", tt, got, err)
		}
	}
}
