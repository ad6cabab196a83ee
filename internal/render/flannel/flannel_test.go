package flannel_test

import (
	"testing"

	"github.com/holdfast/holdfast/internal/golden"
	"github.com/holdfast/holdfast/internal/render/flannel"
	"github.com/holdfast/holdfast/internal/sitetest"
)

func TestManifestsMatchTheApprovedFile(t *testing.T) {
	for name, config := range map[string]string{
		"one-none.yaml": sitetest.OneNone, "two-dual.yaml": sitetest.TwoDual, "three-v6.yaml": sitetest.ThreeV6,
	} {
		t.Run(name, func(t *testing.T) {
			file, err := flannel.Manifests(sitetest.New(t, config))
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, name, file.Data)
		})
	}
}
