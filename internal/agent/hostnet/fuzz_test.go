package hostnet

import (
	"encoding/json"
	"testing"

	"github.com/holdfast/holdfast/internal/agent/network"
	"github.com/holdfast/holdfast/internal/model/state"
)

// FuzzView checks that each part of any given view is either rendered or refused
// with an error, and that no view ends the program.
func FuzzView(f *testing.F) {
	whole, err := json.Marshal(view())
	if err != nil {
		f.Fatal(err)
	}
	status, err := json.Marshal(network.Status{NetworkStatus: state.NetworkStatus{View: view()}})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		string(whole), string(status), "", "null", "[]", `{"view":null}`, `{"settings":{"cluster":"x"}}`,
		`{"settings":{"cluster":"x","domain":"x.test","managedVIPs":true,"apiVIPs":["","::ffff:10.0.0.1"]},"role":"master","nodes":[{"Name":"a/b","Addresses":[""]}]}`,
		`{"settings":{"cluster":"x","managedVIPs":true,"apiVIPs":["10.98.0.5"]},"role":"bootstrap","host":{"nodeName":"a\nb","addresses":["10.98.0.11"],"interface":"e\nth0"}}`,
	} {
		f.Add([]byte(seed))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := ReadView(data)
		if err != nil {
			return
		}
		for _, part := range Parts() {
			r, err := Render(part, v, dir)
			if err == nil && r.Why == "" {
				t.Errorf("%s: nothing says why: %+v", part, r)
			}
		}
	})
}
