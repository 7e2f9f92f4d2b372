// Confluent's parallel-consumer in transactional mode: five outputs of each input, by pollAndProduceMany.
// parallel_consumer.py runs it. TOO_LARGE in the environment is a number: of one input in so many, the third output is larger than a
// request may be when it is processed for the first time, and right when it is tried again.

import io.confluent.parallelconsumer.ParallelConsumerOptions;
import io.confluent.parallelconsumer.ParallelStreamProcessor;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class ParallelConsumer {
  private static final int OUTPUTS = 5;
  private static final String LARGE = "x".repeat(100_000);

  private final Map<String, String> environment = System.getenv();
  private final int tooLarge = Integer.parseInt(environment.getOrDefault("TOO_LARGE", "0"));
  private final Set<String> tried = ConcurrentHashMap.newKeySet();

  public static void main(String[] arguments) throws InterruptedException {
    new ParallelConsumer().run();
  }

  private void run() throws InterruptedException {
    ParallelConsumerOptions<String, String> options =
        ParallelConsumerOptions.<String, String>builder()
            .ordering(ParallelConsumerOptions.ProcessingOrder.KEY)
            .maxConcurrency(8)
            .consumer(new KafkaConsumer<>(consumer()))
            .producer(new KafkaProducer<>(producer()))
            .commitMode(ParallelConsumerOptions.CommitMode.PERIODIC_TRANSACTIONAL_PRODUCER)
            .commitInterval(Duration.ofMillis(500))
            .defaultMessageRetryDelay(Duration.ofMillis(200))
            .build();
    ParallelStreamProcessor<String, String> processor = ParallelStreamProcessor.createEosStreamProcessor(options);
    processor.subscribe(List.of(environment.get("FENCEPOST_INPUT")));
    processor.pollAndProduceMany(context -> outputs(context.getSingleConsumerRecord()));
    Runtime.getRuntime().addShutdownHook(new Thread(processor::close));
    while (!processor.isClosedOrFailed()) {
      Thread.sleep(200);
    }
    System.exit(1);
  }

  private List<ProducerRecord<String, String>> outputs(ConsumerRecord<String, String> input) {
    boolean large = tooLarge > 0 && Math.floorMod(input.offset(), tooLarge) == 0 && tried.add(input.partition() + "@" + input.offset());
    List<ProducerRecord<String, String>> outputs = new ArrayList<>();
    for (int number = 0; number < OUTPUTS; number++) {
      String value = number == 2 && large ? LARGE : input.value() + " " + number;
      outputs.add(new ProducerRecord<>(environment.get("FENCEPOST_OUTPUT"), null, input.key(), value, input.headers()));
    }
    return outputs;
  }

  private Map<String, Object> consumer() {
    Map<String, Object> settings = new HashMap<>();
    settings.put("bootstrap.servers", environment.get("FENCEPOST_BOOTSTRAP"));
    settings.put("group.id", environment.get("FENCEPOST_GROUP"));
    settings.put("auto.offset.reset", "earliest");
    settings.put("enable.auto.commit", false);
    settings.put("isolation.level", "read_committed");
    settings.put("session.timeout.ms", 6000);
    settings.put("heartbeat.interval.ms", 1500);
    settings.put("key.deserializer", StringDeserializer.class);
    settings.put("value.deserializer", StringDeserializer.class);
    return settings;
  }

  private Map<String, Object> producer() {
    Map<String, Object> settings = new HashMap<>();
    settings.put("bootstrap.servers", environment.get("FENCEPOST_BOOTSTRAP"));
    settings.put("transactional.id", environment.get("FENCEPOST_TRANSACTIONAL_ID"));
    settings.put("transaction.timeout.ms", 10_000);
    settings.put("max.request.size", 50_000);
    settings.put("key.serializer", StringSerializer.class);
    settings.put("value.serializer", StringSerializer.class);
    return settings;
  }
}
