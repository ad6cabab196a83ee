package pacemaker

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/crmmon"
	"github.com/holdfast/holdfast/internal/model/state"
)

// FuzzQuorumTool lets corosync-quorumtool print anything, in pieces.
func FuzzQuorumTool(f *testing.F) {
	f.Add("Quorum information\nRing ID: 1.1a\nQuorate: Yes\n\nNodeid Name\n 1 cp-1 (local)\n 2 cp-2\n\n", 7)
	f.Add("Nodeid\n(local)\n\n", 1)
	f.Add("Ring ID:\nNodeid\n\n", 3)
	f.Fuzz(func(t *testing.T, text string, piece int) {
		r := &reader{changed: func(m state.Fact[state.Membership]) {
			if m.Known && (len(m.Value.Members) == 0 || strings.ContainsAny(strings.Join(m.Value.Members, ""), " \n")) {
				t.Errorf("%q: members %q", text, m.Value.Members)
			}
		}}
		for piece = max(1, piece); len(text) > 0; {
			n := min(piece, len(text))
			if wrote, err := r.Write([]byte(text[:n])); wrote != n || err != nil {
				t.Fatal(wrote, err)
			}
			text = text[n:]
		}
	})
}

// FuzzCrmMon parses any status of Pacemaker.
func FuzzCrmMon(f *testing.F) {
	f.Add([]byte(`<pacemaker-result><summary><cluster_options stonith-enabled="true" maintenance-mode="false"/></summary>` +
		`<nodes><node name="a" online="true" standby="false" maintenance="false" pending="false" unclean="false"/></nodes><resources><clone id="c" managed="true">` +
		`<resource id="x" role="Started" active="true" blocked="false" managed="true" failed="false"><node name="a"/></resource></clone></resources></pacemaker-result>`))
	f.Add([]byte(`<a><b/></a>`))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := crmmon.Parse(text, time.UTC)
		if err != nil {
			return
		}
		if may := mayFence(c, "x"); may == nil && (!c.Options.FencingEnabled || c.Options.Maintenance) {
			t.Errorf("%q", text)
		}
		for name, nodes := range statusOf(c).Running {
			if len(nodes) == 0 {
				t.Errorf("%q: %s runs nowhere", text, name)
			}
		}
	})
}

// FuzzAttributes parses any output of the attribute daemon.
func FuzzAttributes(f *testing.F) {
	f.Add(`name="x" host="cp-1" value="` + base64.StdEncoding.EncodeToString([]byte(`{"uuid":"a"}`)) + `"`)
	f.Add(`name="x" host="cp-1" value="`)
	f.Add(` host="" value=""`)
	f.Fuzz(func(t *testing.T, out string) {
		for line := range strings.Lines(out) {
			node, value := attributeLine(strings.TrimSpace(line))
			if strings.Contains(node+value, "\n") {
				t.Errorf("%q: %q, %q", line, node, value)
			}
		}
		if value, err := attributeValue(out, "cp-1"); err != nil && value != "" {
			t.Errorf("%q: %q and %v", out, value, err)
		}
	})
}
