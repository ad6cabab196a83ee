// imagenames prints the full names of the images that Kubernetes' Conformance
// tests run, as a JSON object keyed by the names in the tests' source. The
// registries come from the file in KUBE_TEST_REPO_LIST, as for the tests.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/kubernetes/test/utils/image"
)

// used holds the images of Conformance tests. A new name here needs an image in
// test/conformance.
var used = map[string]image.ImageID{
	"Agnhost":         image.Agnhost,
	"AgnhostPrev":     image.AgnhostPrev,
	"APIServer":       image.APIServer,
	"BusyBox":         image.BusyBox,
	"Etcd":            image.Etcd,
	"GlibcDnsTesting": image.GlibcDnsTesting,
	"Kitten":          image.Kitten,
	"Nautilus":        image.Nautilus,
	"Nginx":           image.Nginx,
	"NginxNew":        image.NginxNew,
	"Nonewprivs":      image.Nonewprivs,
	"NonRoot":         image.NonRoot,
	"Pause":           image.Pause,
}

func main() {
	names := map[string]string{}
	for name, id := range used {
		names[name] = image.GetE2EImage(id)
	}
	if err := json.NewEncoder(os.Stdout).Encode(names); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
