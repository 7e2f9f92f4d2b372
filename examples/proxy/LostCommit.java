import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The answer to a commit is lost; the transaction must be in the log once. A program for partition 0 of a topic:
 *
 * <pre>
 * fencepost proxy --upstream localhost:9092
 * java -cp 'DIRECTORY WITH kafka-clients AND slf4j/*' LostCommit.java 127.0.0.1:19092 127.0.0.1:8474 TOPIC
 * </pre>
 */
public final class LostCommit {
    private static final HttpClient HTTP = HttpClient.newHttpClient();

    private LostCommit() {}

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        String control = "http://" + arguments[1];
        TopicPartition place = new TopicPartition(arguments[2], 0);
        String value = UUID.randomUUID().toString();
        String rule = """
            {"name": "NAME", "api": "EndTxn", "transactional_id": "NAME", "act": "lose", "nth": 1}""".replace("NAME", "lost-" + value);
        String number = ask("POST", control + "/rules", rule).replaceAll("[^0-9]", "");
        commit(bootstrap, "lost-" + value, place, value);
        String caught = ask("GET", control + "/rules/" + number + "/wait?timeout_ms=10000", "");
        ask("DELETE", control + "/rules/" + number, "");
        long copies = copies(bootstrap, place, value);
        if (!caught.contains("\"state\":\"lost\"") || copies != 1) {
            throw new AssertionError(copies + " records, " + caught);
        }
        System.out.println("the answer to EndTxn was lost, and the record is there once");
    }

    private static String ask(String method, String address, String body) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(address))
            .method(method, HttpRequest.BodyPublishers.ofString(body)).build();
        HttpResponse<String> answer = HTTP.send(request, HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() != 200) {
            throw new AssertionError(answer.body());
        }
        return answer.body();
    }

    private static void commit(String bootstrap, String transactionalId, TopicPartition place, String value) {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "transactional.id", transactionalId);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(place.topic(), place.partition(), null, value));
            producer.commitTransaction();
        }
    }

    private static long copies(String bootstrap, TopicPartition place, String value) {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "isolation.level", "read_committed");
        long count = 0;
        try (KafkaConsumer<String, String> reader = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            reader.assign(List.of(place));
            long end = reader.endOffsets(List.of(place)).get(place);
            reader.seekToBeginning(List.of(place));
            while (reader.position(place) < end) {
                for (ConsumerRecord<String, String> record : reader.poll(Duration.ofSeconds(1))) {
                    count += value.equals(record.value()) ? 1 : 0;
                }
            }
        }
        return count;
    }
}
