package kube

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// podServer has many pods and returns them in pages of the requested size, as
// an API server does.
func podServer(t *testing.T, number int) *Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var out any = corev1.NodeList{Items: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "cp-1"}}}}
		if r.URL.Path == "/api/v1/pods" {
			limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
			from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
			var list corev1.PodList
			for i := from; i < min(from+limit, number); i++ {
				list.Items = append(list.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p-%d", i)}})
			}
			if from+limit < number {
				list.Continue = strconv.Itoa(from + limit)
			}
			out = list
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out)
	}))
	t.Cleanup(server.Close)
	set, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	return &Client{set: set}
}

func TestEachPodIsReadOnceThoughTheyComeInPieces(t *testing.T) {
	for _, number := range []int{0, 1, podsAtOnce, 2*podsAtOnce + 7} {
		seen := map[string]int{}
		nodes, err := podServer(t, number).EachPod(t.Context(), func(p *corev1.Pod) { seen[p.Name]++ })
		if err != nil || len(nodes) != 1 {
			t.Fatalf("%d: %v, %v", number, nodes, err)
		}
		if len(seen) != number {
			t.Errorf("%d of %d pods", len(seen), number)
		}
		for name, n := range seen {
			if n != 1 {
				t.Errorf("%s came %d times", name, n)
			}
		}
	}
}
