package installer_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

func TestRunsAtOnceInOneDirectoryNeverMixKeys(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, installer.ConfigFile), []byte(sitetest.TwoDual), 0o600); err != nil {
		t.Fatal(err)
	}
	newOne := func() *installer.Installer {
		return &installer.Installer{Dir: dir, Now: sitetest.Created.Local, Random: rand.Reader}
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := newOne().IgnitionConfigs(); err != nil && !strings.Contains(err.Error(), "another holdfast works in "+dir) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	// The first run made all files from one set of keys.
	if wrote, err := newOne().IgnitionConfigs(); err != nil || len(wrote) != 0 {
		t.Errorf("the files are not of one run: %v (%v)", wrote, err)
	}
}
