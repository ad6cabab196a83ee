package installer_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// makeDirectory does what an administrator does for a site, in a new directory.
func makeDirectory(dir, config string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, installer.ConfigFile), []byte(config), 0o600); err != nil {
		return err
	}
	in := &installer.Installer{Dir: dir, Now: func() time.Time { return sitetest.Created }, Random: rand.Reader}
	_, err := in.IgnitionConfigs()
	return err
}

// makeInMemory does the same without a disk.
func makeInMemory(text string) error {
	cfg, err := config.Parse([]byte(text))
	if err != nil {
		return err
	}
	id, err := keys.Generate(sitetest.Created, rand.Reader)
	if err != nil {
		return err
	}
	s := &site.Site{Config: cfg, Identity: id}
	objects, err := installer.Objects(s)
	if err != nil {
		return err
	}
	_, err = installer.Files(s, objects)
	return err
}

// BenchmarkIgnitionConfigs runs `holdfast create ignition-configs` in a new
// directory: keys, Ignition of every role and kubeconfig, written and synced.
func BenchmarkIgnitionConfigs(b *testing.B) {
	root := b.TempDir()
	for i := 0; b.Loop(); i++ {
		if err := makeDirectory(filepath.Join(root, fmt.Sprint(i)), sitetest.TwoDual); err != nil {
			b.Fatal(err)
		}
	}
}

// manySites is the number of stores of a large customer.
const manySites = 10_000

// numbered returns the configuration of one of many different sites.
func numbered(i int) string {
	return strings.NewReplacer(
		"{name: shop}", fmt.Sprintf("{name: shop-%d}", i),
		"10.98.0.", fmt.Sprintf("10.%d.%d.", 64+i>>8&63, i&255),
		"10.99.0.", fmt.Sprintf("172.20.%d.", i&255),
	).Replace(sitetest.TwoDual)
}

// benchmarkMany makes different sites, each with its own keys, on all
// processors.
func benchmarkMany(b *testing.B, sites int, make func(i int) error) {
	for b.Loop() {
		var group errgroup.Group
		group.SetLimit(runtime.GOMAXPROCS(0))
		for i := range sites {
			group.Go(func() error { return make(i) })
		}
		if err := group.Wait(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTenThousandSitesInMemory(b *testing.B) {
	benchmarkMany(b, manySites, func(i int) error { return makeInMemory(numbered(i)) })
}

// BenchmarkThousandSitesOnDisk makes a tenth of the sites: all of them would
// take 4 GB.
func BenchmarkThousandSitesOnDisk(b *testing.B) {
	root := b.TempDir()
	benchmarkMany(b, manySites/10, func(i int) error { return makeDirectory(filepath.Join(root, fmt.Sprint(i)), numbered(i)) })
}
