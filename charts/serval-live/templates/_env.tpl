{{/* The operator's environment: fields of engine_operator.settings. It refuses to start with one that it does not know. */}}
{{- define "serval-live.env" -}}
{{- $predictor := include "serval-live.image" (dict "image" .Values.predictor.image "root" .) -}}
- name: SERVAL_LIVE_OPERATOR_NAMESPACES
  value: {{ include "serval-live.watchNamespaces" . | fromJsonArray | join "," | quote }}
- name: SERVAL_LIVE_OPERATOR_CONVERTER_IMAGE
  value: {{ $predictor | quote }}
- name: SERVAL_LIVE_OPERATOR_RUNTIME_IMAGE_CPU
  value: {{ $predictor | quote }}
{{- if .Values.predictor.gpuImage.repository }}
- name: SERVAL_LIVE_OPERATOR_RUNTIME_IMAGE_GPU
  value: {{ include "serval-live.image" (dict "image" .Values.predictor.gpuImage "root" .) | quote }}
{{- end }}
{{- with include "serval-live.pullSecretNames" . }}
- name: SERVAL_LIVE_OPERATOR_IMAGE_PULL_SECRETS
  value: {{ . | quote }}
{{- end }}
- name: SERVAL_LIVE_OPERATOR_WORKLOAD_SERVICE_ACCOUNT
  value: {{ include "serval-live.workloadServiceAccount" . | quote }}
- name: SERVAL_LIVE_OPERATOR_LEASE_NAME
  value: {{ include "serval-live.lease" . | quote }}
- name: SERVAL_LIVE_OPERATOR_KNATIVE_NAMESPACE
  value: {{ .Values.knative.namespace | quote }}
- name: SERVAL_LIVE_OPERATOR_HEALTH_PORT
  value: {{ .Values.ports.http | quote }}
- name: SERVAL_LIVE_OPERATOR_LOG_LEVEL
  value: {{ .Values.log.level | quote }}
- name: SERVAL_LIVE_OPERATOR_LOG_FORMAT
  value: {{ .Values.log.format | quote }}
{{- range $name, $value := .Values.extraEnv }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end -}}
