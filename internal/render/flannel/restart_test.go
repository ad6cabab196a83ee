package flannel_test

import (
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/render/flannel"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// TestU81_FlannelsRulesStayWhileItRestarts: in nftables flannel removes nothing when it ends or starts
// (docs/facts/upgrades.md), and nothing of ours does so for it.
func TestU81_FlannelsRulesStayWhileItRestarts(t *testing.T) {
	for _, config := range []string{sitetest.OneNone, sitetest.TwoDual, sitetest.ThreeV6} {
		file, err := flannel.Manifests(sitetest.New(t, config))
		if err != nil {
			t.Fatal(err)
		}
		if text := string(file.Data); !strings.Contains(text, `"EnableNFTables":true`) || strings.Contains(text, "lifecycle:") || strings.Contains(text, "preStop") {
			t.Errorf("its rules may go away: %s", text)
		}
	}
}
